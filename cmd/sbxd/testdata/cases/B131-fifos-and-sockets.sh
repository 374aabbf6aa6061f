# Sockets and FIFOs that development servers leave: skipped and reported, and nothing
# waits for their other end. Seen in deepcoldy/botmux#161, multikernel/sandlock#165.
# Needs: python3
host() {
	owner sh -c 'cd "$0"; mkfifo old; echo f >was-file' "$PROJECT"
	start
	inside sh -c 'mkfifo pipe; mkdir -p tmp/sockets; rm was-file; mkfifo was-file; echo 1 >after; rm old
		python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\"tmp/sockets/s\")"'
	timeout 20 sbxd diff "$S" >"$DIR/diff"
	for f in pipe tmp/sockets/s was-file; do grep -q "$f" "$DIR/diff" || fail "$f is not in: $(cat "$DIR/diff")"; done
	timeout 20 sbxd land --yes "$S" >/dev/null 2>&1
	[ "$(cat "$PROJECT/after")" = 1 ]
	not test -e "$PROJECT/pipe"
	not test -e "$PROJECT/tmp/sockets/s"
	not test -e "$PROJECT/old"
	[ -f "$PROJECT/was-file" ] || fail 'a file was lost for a FIFO that does not land'
}
