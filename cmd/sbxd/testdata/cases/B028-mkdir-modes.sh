# Directories made in one call with a mode of their own, also one that nobody may
# write. Seen in containers/fuse-overlayfs#414.
work() {
	mkdir -m 0555 sealed
	mkdir -m 0700 private
	mkdir -m 2750 shared
	mkdir -m 1777 sticky
	umask 077
	mkdir masked
	umask 0
	mkdir open
	not sh -c 'echo x >sealed/x'
	echo x >private/x
}
check() { stat -c '%n %a' sealed private shared sticky masked open; }
