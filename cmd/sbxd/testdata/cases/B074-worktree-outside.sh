# The project is a linked worktree, whose repository lies elsewhere in HOME: git works
# inside, and the repository of the host is unchanged before and after landing, which
# takes files and never what is git's (DESIGN: land).
# Seen in openai/codex#19786, anthropics/claude-code#33615.
# Needs: git
host() {
	owner env D="$HOME" bash -ec 'cd "$D"; git -c init.defaultBranch=main init -q trunk; cd trunk
		echo 0 >f; git add f; git commit -qm zero; git worktree add -q ../wt -b topic; git stash list'
	local before after
	before=$(owner git -C "$HOME/trunk" for-each-ref; owner find "$HOME/trunk/.git" -type f | sort)
	start --project "$HOME/wt"
	inside bash -ec 'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
		echo 1 >>f; git add f; git commit -qm one; echo 2 >>f; git stash -q; git stash pop -q; git branch other
		[ "$(git log --oneline | wc -l)" = 2 ]; git fsck' >/dev/null
	after=$(owner git -C "$HOME/trunk" for-each-ref; owner find "$HOME/trunk/.git" -type f | sort)
	[ "$before" = "$after" ]
	# Where the commit is: in HOME's view, which is shown and never lands.
	sbxd diff --home --stat "$S" | grep 'trunk/.git/refs/heads/other' >/dev/null # all of it: no broken pipe
	land
	[ "$(cat "$HOME/wt/f")" = $'0\n1\n2' ]
	after=$(owner git -C "$HOME/trunk" for-each-ref; owner find "$HOME/trunk/.git" -type f | sort)
	[ "$before" = "$after" ]
	owner git -C "$HOME/trunk" fsck
	[ "$(owner git -C "$HOME/wt" status --porcelain)" = ' M f' ]
}
