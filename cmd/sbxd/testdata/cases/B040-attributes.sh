# Attributes and ACLs (of ids that the session has) of a file of the base stay when it is written to; one that
# cannot be copied does not keep it from being written.
# Seen in google/gvisor#13262, containers/fuse-overlayfs#336, systemd/mkosi#3479.
# Needs: setfattr getfattr setfacl getfacl
base() {
	echo one >f
	setfattr -n user.origin -v 'made by hand' f
	setfacl -m "u:$(id -u):rw,m:rw" f
	mkdir d
	setfattr -n user.kind -v dir d
	echo sec >s
	setfattr -n security.probe -v x s 2>/dev/null || true
}
work() {
	echo two >>f
	echo n >d/n
	echo two >>s
	cp -a f g
	mv d/n d/m
	setfattr -n user.added -v y f
	setfattr -x user.origin g
}
check() {
	getfattr --absolute-names -d -m '^user\.[a-z]' f g d | grep -v '^# file'
	getfacl -n --omit-header f g
	cat f g s
}
host() {
	# On the way to the project user.* stays. An ACL does not land (DESIGN: land).
	[ "$(getfattr --only-values -n user.added "$PROJECT/f")" = y ]
	[ "$(getfattr --only-values -n user.origin "$PROJECT/f")" = 'made by hand' ]
	not getfattr -n user.origin "$PROJECT/g"
}
