# The host's /etc/resolv.conf is a link into /run, which sessions do not have: it can be
# read all the same. Seen in fencesandbox/fence#31, containers/toolbox#398, NixOS/nix#11004.
# Needs: root unshare
host() {
	printf '[network]\nallow_open = true\n' >"$SBXD_CONFIG"
	daemon_stop
	# A machine of that kind: /etc of its own, a chain of links that ends in /run.
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
		for network in off open; do
			S=$(sbxd start --project "$PROJECT" --network $network)
			sbxd exec $S -- cat /etc/resolv.conf >"$DIR/$network"
			if sbxd exec $S -- ls /run/resolver 2>/dev/null; then exit 1; fi
			sbxd rm $S
		done'
	[ -s "$DIR/off" ]
	not grep '^nameserver' "$DIR/off"
	grep '^nameserver 192.0.2.53' "$DIR/open"
	rm -rf "$DIR/etc" "$DIR/etcwork"
}
