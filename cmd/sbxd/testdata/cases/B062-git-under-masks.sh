# The default masks break no git: plain clone, sparse checkout, linked worktree,
# submodule, a bare repository beside. Seen in anthropics/claude-code#80278, #72748.
# Needs: git
host() {
	owner env D="$HOME/repos" bash -ec '
		mkdir "$D"; cd "$D"
		git -c init.defaultBranch=main init -q origin
		(cd origin; mkdir a b; echo 1 >a/f; echo 2 >b/f; git add .; git commit -qm zero)
		git clone -q origin plain
		git clone -q origin sparse; git -C sparse sparse-checkout set a
		git clone -q --bare origin bare.git; git clone -q bare.git beside
		git clone -q origin trunk; git -C trunk worktree add -q ../linked -b side
		git clone -q origin super; git -C super -c protocol.file.allow=always submodule --quiet add "$D/origin" mod; git -C super commit -qm mod
	'
	for kind in plain sparse linked super beside; do
		start --project "$HOME/repos/$kind"
		inside bash -ec '
			export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
			[ -z "$(git status --porcelain)" ]
			git config core.abbrev 9; echo new >a/new; git add a/new; git commit -qm one
			git stash list; git branch side-branch; git log --oneline | head -1; git fsck
			case $PWD in
			*/super) echo s >mod/s; git -C mod add s; git -C mod commit -qm s; git add mod; git commit -qm bump ;;
			*/beside) git push -q origin HEAD:refs/heads/pushed ;;
			esac
			[ -z "$(git status --porcelain)" ]' >/dev/null
		[ "$(owner git -C "$HOME/repos/$kind" log --oneline --all | grep -c ' one$')" = 0 ]
	done
	[ -z "$(owner git -C "$HOME/repos/bare.git" branch --list pushed)" ]
}
