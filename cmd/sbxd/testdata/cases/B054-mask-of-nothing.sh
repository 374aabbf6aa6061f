# Masked paths that do not exist: the session starts, and what the host puts there
# while it runs is not to be seen. Seen in anthropics/claude-code#39284, fencesandbox/fence#14.
host() {
	owner sh -c 'mkdir "$0/sealed"; chmod 555 "$0/sealed"' "$HOME"
	start --mask '~/.later/cred' --mask '~/sealed/key' --mask later.env --mask '~/.laterdir/'
	not test -e "$HOME/.later"
	not test -e "$HOME/.aws"
	not inside sh -c 'mkdir -p ~/.later && echo own >~/.later/cred'
	not inside sh -c 'mv ~/.later ~/.other'
	not inside sh -c 'rm -rf ~/.laterdir && mkdir ~/.laterdir && echo own >~/.laterdir/x'
	owner sh -c 'mkdir "$0/.later" "$0/.aws" "$0/.laterdir"; chmod 755 "$0/sealed"
		for f in .later/cred sealed/key .aws/credentials .laterdir/f; do echo SECRET >"$0/$f"; done
		echo SECRET >"$1/later.env"' "$HOME" "$PROJECT"
	for p in ~/.later/cred ~/sealed/key ~/.aws/credentials ~/.laterdir/f "$PROJECT/later.env"; do
		not inside grep -q SECRET "$p"
	done
	# Nothing of it is a change of the session.
	[ "$(sbxd diff --json "$S" | grep -c '"path"' || true)" = 0 ]
}
