# A shared file below /etc, which every session has anyway: where the host's own tree is
# seen, the kernel drops a mount with the name that it lies on (guard_linux.go in
# internal/shim). The new file is read-only all the same.
# Seen in deepcoldy/botmux#1113.
# Needs: root unshare
host() {
	daemon_stop
	unshare -m --propagation private bash -ec '
		mkdir "$DIR/etc" "$DIR/etcwork"
		mount -t overlay o -o "lowerdir=/etc,upperdir=$DIR/etc,workdir=$DIR/etcwork" /etc
		echo 1 >/etc/shared
		chmod 666 /etc/shared
		sbxd serve $RUN_AS >>"$DIR/daemon.log" 2>&1 &
		trap "kill $!; wait" EXIT
		for i in $(seq 200); do sbxd list >/dev/null 2>&1 && break; sleep 0.05; done
		S=$(sbxd start --project "$PROJECT" --ro /etc/shared)
		for n in 1 2 3; do
			[ "$(sbxd exec $S -- cat /etc/shared)" = $n ] || { echo "not $n"; exit 1; }
			if sbxd exec $S -- sh -c "echo x >/etc/shared" 2>/dev/null; then echo "$n: written"; exit 1; fi
			if sbxd exec $S -- rm -f /etc/shared 2>/dev/null; then echo "$n: removed"; exit 1; fi
			echo $((n + 1)) >/etc/shared.new
			chmod 666 /etc/shared.new
			mv /etc/shared.new /etc/shared
			sleep 0.5
		done
		sbxd rm $S'
	rm -rf "$DIR/etc" "$DIR/etcwork"
}
