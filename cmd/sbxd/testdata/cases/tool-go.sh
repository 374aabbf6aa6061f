# go build, twice: the same binary as plainly, byte by byte.
# Needs: go
base() {
	# The session begins with the standard library built: that takes longest.
	[ "$H" = "$W/plain" ] || { mkdir -p "$H/.cache" && cp -a "$W/plain/.cache/go-build" "$H/.cache/"; }
	printf 'module example.org/hello\n\ngo 1.21\n' >go.mod
	mkdir greet
	printf 'package greet\n\nconst Word = "hello"\n' >greet/greet.go
	printf 'package main\n\nimport "example.org/hello/greet"\n\nfunc main() { println(greet.Word) }\n' >main.go
}
work() {
	export PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
	export GOPATH=$H/go GOCACHE=$H/.cache/go-build GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0 GOTELEMETRY=off
	go build -trimpath -o hello .
	./hello 2>&1
	sed -i s/hello/again/ greet/greet.go
	go build -trimpath -o again .
	./again 2>&1
	go list -deps . | tail -n 2
}
check() { find . | sort; }
