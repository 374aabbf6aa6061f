# Targets only: what they do is in Go, in .ci/ and in demo/.
GO  ?= go
# The commit goes into the binary where git lets us ask for it.
VCS := $(shell git status >/dev/null 2>&1 && echo true || echo false)

.PHONY: build install demo test lint bench gen clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -ldflags='-s -w' -o bin/sbxd ./cmd/sbxd

install: build
	install -D -m 0755 bin/sbxd $(DESTDIR)/usr/bin/sbxd
	install -D -m 0644 deploy/sbxd.service $(DESTDIR)/usr/lib/systemd/system/sbxd.service
	install -D -m 0644 deploy/user/sbxd.service $(DESTDIR)/usr/lib/systemd/user/sbxd.service
	install -D -m 0644 deploy/tmpfiles.conf $(DESTDIR)/usr/lib/tmpfiles.d/sbxd.conf
	[ ! -e /etc/apparmor.d/abi/4.0 ] || install -D -m 0644 deploy/apparmor/sbxd $(DESTDIR)/etc/apparmor.d/sbxd

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
