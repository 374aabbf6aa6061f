# Where no sandbox can be made nothing runs, the exit code is not 0 and the reason is
# named. Seen in deepcoldy/botmux#133, kirodotdev/KiroCrew#9765.
# Needs: unshare
try() {
	local want=$1
	for cmd in "start --project $PROJECT" "run --project $PROJECT -- touch $W/RAN"; do
		local rc=0
		# shellcheck disable=SC2086
		sbxd $cmd >"$DIR/out" 2>"$DIR/err" || rc=$?
		[ $rc -ne 0 ] || fail "$cmd succeeded"
		said "$want"
	done
	not test -e "$W/RAN"
	[ -z "$(sbxd list -q)" ]
}
host() {
	# No bubblewrap.
	printf 'bwrap = "/nonexistent/bwrap"\n' >"$SBXD_CONFIG"
	daemon_stop
	daemon_start
	try bwrap
	# A program that is none.
	printf '#!/bin/sh\ntouch %s/RAN\nexec "$@"\n' "$W" >"$DIR/fake"
	chmod 755 "$DIR/fake"
	printf 'bwrap = "%s"\n' "$DIR/fake" >"$SBXD_CONFIG"
	rc=0
	sbxd run --project "$PROJECT" -- touch "$W/RAN2" >/dev/null 2>&1 || rc=$?
	[ $rc -ne 0 ]
	not test -e "$W/RAN2"
	: >"$SBXD_CONFIG"
	rm -f "$W/RAN"
	# No user namespaces.
	daemon_stop
	local inner i id
	unshare -U --keep-caps bash -c 'until [ "$(id -u)" = "$0" ]; do sleep 0.02; done; exec bash -ec "$1"' "$(id -u)" '
		echo 0 >/proc/sys/user/max_user_namespaces
		setpriv --inh-caps=-all --ambient-caps=-all sbxd serve $RUN_AS >>"$DIR/daemon.log" 2>&1 &
		trap "kill $!; wait" EXIT
		for i in $(seq 200); do sbxd list >/dev/null 2>&1 && break; sleep 0.05; done
		rc=0
		sbxd run --project "$PROJECT" -- touch "$W/RAN" 2>"$DIR/err" || rc=$?
		test $rc -ne 0 -a $rc -ne 12' &
	inner=$!
	# Every id is itself: the daemon is who it was, of a user namespace that has no more.
	for i in $(seq 250); do
		if [ "$(readlink "/proc/$inner/ns/user")" != "$(readlink /proc/self/ns/user)" ]; then break; fi
		sleep 0.02
	done
	id=$(id -u)
	if [ "$id" = 0 ]; then
		echo '0 0 65536' >"/proc/$inner/gid_map"
		echo '0 0 65536' >"/proc/$inner/uid_map"
	else
		echo "$id $id 1" >"/proc/$inner/uid_map"
	fi
	wait "$inner"
	said 'namespace'
	not test -e "$W/RAN"
}
