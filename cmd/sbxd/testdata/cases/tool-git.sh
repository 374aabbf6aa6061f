# git: clone, commit, rebase, gc, worktree and more, with the same hashes as plainly.
# Needs: git
base() {
	git -c init.defaultBranch=main init -q .
	for i in 1 2 3 4 5; do
		echo "line $i" >>story
		mkdir -p "part$i"
		seq $((i * 100)) >"part$i/numbers"
		ln -s ../story "part$i/link"
		git add .
		GIT_AUTHOR_DATE="2024-01-0${i}T00:00:00Z" GIT_COMMITTER_DATE="2024-01-0${i}T00:00:00Z" git -c user.name=b -c user.email=b@example.org commit -qm "step $i"
	done
}
work() {
	export GIT_AUTHOR_DATE='2024-02-03T04:05:06Z' GIT_COMMITTER_DATE='2024-02-03T04:05:06Z'
	export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
	git status --porcelain
	git clone -q . ../clone
	git checkout -qb topic HEAD~2
	echo other >other
	git add other
	git commit -qm 'on a topic'
	git rm -qr part1
	git commit -qm 'without part 1'
	git rebase -q main
	git worktree add -q ../tree HEAD~1
	echo w >../tree/w
	git -C ../tree add w
	git -C ../tree commit -qm 'in a worktree'
	git tag -m annotated v1
	git stash list
	echo dirty >>story
	git stash -q
	git stash pop -q
	git commit -qam dirty
	git merge -q --no-edit "$(git -C ../tree rev-parse HEAD)"
	git gc -q
	git repack -adq
	git worktree remove ../tree
	git reset -q --hard HEAD~1
	git -C ../clone pull -q "$PWD" topic
	git fsck --full
	git for-each-ref
	git log --format='%H %s'
	git -C ../clone log --format=%H -1
	git status --porcelain
}
check() { git ls-files -s | sha256sum; }
