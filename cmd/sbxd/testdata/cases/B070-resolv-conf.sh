# /etc/resolv.conf is a link into /run, which sessions do not have: it can be read all
# the same. Seen in fencesandbox/fence#31, containers/toolbox#398, NixOS/nix#11004.
# Needs: root unshare
host() {
	daemon_stop
	# A machine of that kind: /etc of its own, a chain of links that ends in /run.
	exec 3>&1
	export S LIB=$BASH_SOURCE RUN_AS DAEMON
	unshare -m --propagation private bash -ec '
		mkdir "$DIR/etc" "$DIR/etcwork"
		mount -t overlay o -o "lowerdir=/etc,upperdir=$DIR/etc,workdir=$DIR/etcwork" /etc
		mount -t tmpfs run /run
		mkdir -p /run/resolver/stub
		echo "nameserver 192.0.2.53" >/run/resolver/stub/conf
		ln -s stub/conf /run/resolver/link
		rm -f /etc/resolv.conf
		ln -s ../run/resolver/link /etc/resolv.conf
		sbxd serve $RUN_AS >>"$DIR/daemon.log" 2>&1 &
		trap "kill $!; wait" EXIT
		for i in $(seq 200); do sbxd list >/dev/null 2>&1 && break; sleep 0.05; done
		S=$(sbxd start --project "$PROJECT")
		sbxd exec $S -- sh -c "test -r /etc/resolv.conf && cat /etc/resolv.conf"
		sbxd exec $S -- sh -c "ls /run/resolver 2>/dev/null" || true
		sbxd rm --discard $S' >"$DIR/out"
	cat "$DIR/out"
	rm -rf "$DIR/etc" "$DIR/etcwork"
}
