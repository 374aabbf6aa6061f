# Copies of read-only files keep bytes and mode; git, whose objects are read-only,
# works. Seen in containers/fuse-overlayfs#399.
# Needs: git
base() {
	head -c 70000 /dev/zero | tr '\0' p >pack
	chmod 444 pack
}
work() {
	cp pack copy
	cp -p pack exact
	cat pack >>copy 2>/dev/null || echo 'read-only for its owner, too'
	cp --reflink=auto pack third
	export GIT_AUTHOR_DATE='2024-05-06T07:08:09Z' GIT_COMMITTER_DATE='2024-05-06T07:08:09Z'
	export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
	git -c init.defaultBranch=main init -q repo
	cp pack repo/
	git -C repo add pack
	git -C repo commit -qm one
	git -C repo gc -q
	git clone -q repo clone
	git -C clone rev-parse HEAD
	git -C clone fsck
}
check() {
	stat -c '%n %a %s' pack copy exact third clone/pack
	cmp pack copy
}
