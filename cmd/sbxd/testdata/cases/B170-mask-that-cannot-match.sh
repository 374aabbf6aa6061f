# A mask that is neither a plain path nor a pattern that can hold is an error; one that matches nothing is reported.
# A relative mask is one below the project. Seen in anthropics/claude-code#32287, #77568.
host() {
	cd "$PROJECT"
	for m in '' / . ../x '~root/.ssh' '$HOME/.ssh' //home/x/.ssh '~' "$HOME" '~/../x' 'a[' '/*' "$(printf 'n%.0s' {1..300})"; do
		status 7 sbxd config check --mask "$m"
		said .
		[ "$(grep -c '^sbxd:' "$DIR/err")" = 1 ] || fail "$m: more than one line: $(cat "$DIR/err")"
	done
	for m in ./x .ssh '~/.ssh' "$HOME/.ssh" '~/x/y/z' /srv/x '~/with space/'; do sbxd config check --mask "$m"; done
	for m in '' / '~root/.ssh' '$HOME/.ssh' //home/x '../x'; do
		status 7 sbxd start --project "$PROJECT" --mask "$m"
	done
	[ -z "$(sbxd list -q)" ]
	S=$(sbxd start --project "$PROJECT" --mask '~/no/such/dir/key' 2>"$DIR/err")
	said 'no/such/dir'
	grep -q 'no/such/dir' <<<"$(sbxd status "$S")"
}
