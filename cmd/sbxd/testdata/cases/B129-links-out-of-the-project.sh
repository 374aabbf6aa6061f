# Links that lead out of the project land as links; what they point to is never opened.
# Seen in multikernel/sandlock#112, deepcoldy/botmux#161.
base() {
	echo in >f
	echo g >g
	mkdir d
	echo e >d/e
}
work() {
	ln -s /etc/hostname absolute
	ln -s ../../../../../../etc/hostname relative
	rm g
	ln -s ../outside g
	ln -s nowhere dangling
	ln -s loop loop
	rm -r d
	ln -s .. d
	ln -s "$(printf 'long%.0s' {1..900})" long
}
check() { find . -type l -printf '%p %l\n' | sort; }
host() {
	local p=$HOME/second
	owner sh -c 'mkdir -p "$0/sub" "$1/vault"; echo victim >"$1/vault/v"; echo x >"$0/sub/x"' "$p" "$W"
	start --project "$p"
	inside sh -c 'ln -s "$0/vault" out; ln -s "$0/vault/v" file; echo y >sub/y' "$W"
	# And the host turns a directory that lands into a link meanwhile.
	owner sh -c 'rm -r "$0/sub"; ln -s "$1/vault" "$0/sub"' "$p" "$W"
	status 4 sbxd land --yes "$S"
	[ "$(ls "$W/vault")" = v ]
	owner rm "$p/sub"
	owner mkdir "$p/sub"
	sbxd land --yes "$S" >/dev/null 2>&1 || true
	[ "$(ls "$W/vault")" = v ]
	[ "$(cat "$W/vault/v")" = victim ]
}
