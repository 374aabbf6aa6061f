# Targets only: what they do is in Go, in .ci/ and in demo/.
GO     ?= go
PREFIX ?= /usr
BIN     = $(DESTDIR)$(PREFIX)/bin
UNITS   = $(DESTDIR)$(PREFIX)/lib/systemd

.PHONY: build install demo test lint bench gen clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/sbxd ./cmd/sbxd

install: build
	install -D -m 0755 bin/sbxd $(BIN)/sbxd
	install -D -m 0644 deploy/sbxd.service $(UNITS)/system/sbxd.service
	install -D -m 0644 deploy/user/sbxd.service $(UNITS)/user/sbxd.service
	install -D -m 0644 deploy/tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/sbxd.conf
	install -D -m 0644 deploy/apparmor/sbxd $(DESTDIR)/etc/apparmor.d/sbxd

demo:
	demo/demo.sh

test:
	.ci/test

lint:
	.ci/lint

bench: build
	bench/run

gen:
	$(GO) generate ./...

clean:
	rm -rf bin build
