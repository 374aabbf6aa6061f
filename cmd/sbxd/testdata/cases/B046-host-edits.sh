# The project changes on the host under a running session: what the session touched
# stays the session's; the rest is old or new, never an error, never a mixture.
# Seen in systemd/mkosi#1841, containers/fuse-overlayfs#190.
host() {
	owner sh -c 'cd "$0"; for i in 1 2 3 4 5; do echo "base $i" >f$i; done; mkdir d; echo x >d/x; mkdir e; echo y >e/y' "$PROJECT"
	start
	inside sh -c 'echo mine >f1; cat f2 f3 f4 d/x >/dev/null; ls -R >/dev/null; echo mine >e/mine'
	owner sh -c 'cd "$0"; echo host >f1; echo "host 2" >t; mv t f2; rm f3; rm -r d; mkdir d; echo z >d/z; echo "host 4" >f4; rm e/y' "$PROJECT"
	inside sh -c '
		bad() { echo "$*" >&2; exit 1; }
		[ "$(cat f1)" = mine ] || bad f1
		case "$(cat f2)" in "base 2" | "host 2") ;; *) bad f2 ;; esac
		case "$(cat f4)" in "base 4" | "host 4") ;; *) bad f4 ;; esac
		if ! out=$(cat f3 2>&1); then
			case "$out" in *"No such file"*) ;; *) bad "$out" ;; esac
		fi
		[ "$(cat f5)" = "base 5" ] || bad f5
		ls -R . >/dev/null || bad ls
		[ "$(cat e/mine)" = mine ] || bad e
		echo new >d/new || bad "d cannot be written"
		echo more >>f5 || bad "f5 cannot be written"'
	# What both changed is a conflict, and then nothing lands (DESIGN: land).
	status 4 sbxd land --yes "$S"
	said f1
	[ "$(cat "$PROJECT/f1" "$PROJECT/f5")" = $'host\nbase 5' ]
	not test -e "$PROJECT/e/mine"
}
