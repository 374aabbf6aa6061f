# A masked dotfile is a link into a read-only store: hidden under the link's name and,
# where a session sees it, under its own. Nothing is made in the store.
# Seen in anthropic-experimental/sandbox-runtime#185, fencesandbox/fence#51.
host() {
	owner sh -c 'mkdir -p "$0/store" "$1/store" "$1/.app"
		echo SECRET-1 >"$0/store/cred"; echo SECRET-2 >"$1/store/token"; echo SECRET-3 >"$1/store/dir"
		ln -s "$0/store/cred" "$1/.app/cred"; ln -s ../store/token "$1/.app/token"
		ln -s "$0/store" "$1/.app/all"
		chmod 555 "$0/store" "$1/store"' "$W" "$HOME"
	start --mask '~/.app/cred' --mask '~/.app/token' --ro "$W/store"
	inside sh -c 'test -d ~/.app'
	for p in "$HOME/.app/cred" "$W/store/cred" "$HOME/.app/token" "$HOME/store/token" "$HOME/.app/all/cred"; do
		not inside grep -q SECRET "$p"
		not inside sh -c 'echo x >"$0"' "$p"
	done
	# Its neighbour is no secret.
	[ "$(inside cat "$HOME/store/dir")" = SECRET-3 ]
	[ "$(ls -A "$W/store" "$HOME/store" | wc -l)" = 6 ]
	# A link to a whole directory hides that.
	start --mask '~/.app/all'
	not inside cat "$HOME/.app/all/cred"
	not inside cat "$W/store/cred"
	owner chmod 755 "$W/store" "$HOME/store"
}
