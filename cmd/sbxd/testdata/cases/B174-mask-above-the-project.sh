# A mask of the project or of what is above it is refused; a command never runs in some
# other directory instead. Seen in anthropic-experimental/sandbox-runtime#79.
host() {
	owner mkdir -p "$HOME/top/p"
	for m in "$HOME/top" "$HOME/top/p" "$HOME" "$DIR" /tmp / .. . "$HOME/top/p/"; do
		rc=0
		sbxd start --project "$HOME/top/p" --mask "$m" >/dev/null 2>"$DIR/err" || rc=$?
		case $rc in 2 | 7) ;; *) fail "mask $m: ended with $rc: $(cat "$DIR/err")" ;; esac
		[ "$(wc -l <"$DIR/err")" -le 2 ]
	done
	[ -z "$(sbxd list -q)" ]
	start --project "$HOME/top/p" --mask "$HOME/top/q"
	[ "$(inside pwd)" = "$HOME/top/p" ]
	not sbxd exec --cwd "$HOME/top/q/r" "$S" -- pwd
}
