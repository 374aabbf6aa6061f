# A shared file below /etc, or on a mount below HOME, which sessions have anyway: where the
# host's own tree is seen, the kernel drops a mount with the name that it lies on
# (guard_linux.go in internal/shim). The new file is read-only all the same, and never
# what lies below the mount.
# Seen in deepcoldy/botmux#1113.
# Needs: root unshare
host() {
	daemon_stop
	unshare -m --propagation private bash -ec '
		mkdir "$DIR/etc" "$DIR/etcwork" "$HOME/disk"
		mount -t overlay o -o "lowerdir=/etc,upperdir=$DIR/etc,workdir=$DIR/etcwork" /etc
		echo below >"$HOME/disk/shared"
		mount -t tmpfs disk "$HOME/disk"
		sbxd serve $RUN_AS >>"$DIR/daemon.log" 2>&1 &
		trap "kill $!; wait" EXIT
		for i in $(seq 200); do sbxd list >/dev/null 2>&1 && break; sleep 0.05; done
		for f in /etc/shared "$HOME/disk/shared"; do
			echo 1 >$f
			chmod 666 $f
			S=$(sbxd start --project "$PROJECT" --ro $f)
			for n in 1 2 3; do
				[ "$(sbxd exec $S -- cat $f)" = $n ] || { echo "$f: not $n"; exit 1; }
				if sbxd exec $S -- sh -c "echo x >$f" 2>/dev/null; then echo "$f $n: written"; exit 1; fi
				if sbxd exec $S -- rm -f $f 2>/dev/null; then echo "$f $n: removed"; exit 1; fi
				echo $((n + 1)) >$f.new
				chmod 666 $f.new
				mv $f.new $f
				sleep 0.5
			done
			sbxd rm $S
		done'
	rm -rf "$DIR/etc" "$DIR/etcwork" "$HOME/disk"
}
