# Editors and programs leave copies beside a credential: they are hidden with it, and
# a warning says to mask the directory. Seen in deepcoldy/botmux#668, Gitlawb/zero#681.
host() {
	owner sh -c 'mkdir "$0/.vault"; cd "$0/.vault"; for f in auth.json auth.json.bak auth.json.tmp-77 .auth.json.swp auth.json~ auth.json.lock auth.json.3; do
		echo SECRET >$f; done; echo plain >author.json; echo SECRET >"$0/.netrc~"' "$HOME"
	S=$(sbxd start --project "$PROJECT" --mask '~/.vault/auth.json' 2>"$DIR/err")
	said 'vault'
	[ "$(inside sh -c 'cat ~/.vault/* ~/.vault/.[!.]* ~/.netrc~ 2>/dev/null' || true)" = plain ]
}
