# Sessions live on while threads of daemon and shim come and go: a signal on the death
# of a parent goes by threads. Seen in containers/bubblewrap#692, golang/go#27505.
host() {
	local i n=12 s
	for i in $(seq $n); do
		start --name "s$i"
		sbxd exec --detach "$S" -- sh -c 'while :; do echo >>count; sleep 0.2; done' >/dev/null
	done
	# Many requests at once make threads, quiet ends them.
	for i in 1 2 3; do
		for s in $(seq $n); do
			(
				for _ in 1 2 3; do sbxd exec "s$s" -- true; done
				sbxd status "s$s"
			) >/dev/null &
		done
		wait
		sleep 0.5
	done
	daemon_stop KILL
	sleep 0.5
	daemon_start
	[ "$(sbxd list | grep -c running)" = $n ]
	for i in $(seq $n); do
		s=$(sbxd exec "s$i" -- wc -c count)
		until_true 10 sh -c '[ "$(sbxd exec "$0" -- wc -c count)" != "$1" ]' "s$i" "$s"
	done
}
