# What an agent leaves in the background ends with the session, even if it ignores every
# signal it can; zombies are reaped while the session runs.
# Seen in kirodotdev/KiroCrew#5883, docker/docs#26064.
host() {
	local mark=left-$$-$RANDOM t0
	start
	inside bash -c 'for i in 1 2 3; do setsid nohup bash -c "trap \"\" TERM HUP INT; exec -a '"$mark"' sleep 1000" >/dev/null 2>&1 & done
		(sh -c "exit 3" & (sleep 0.1 &) & exec sleep 0.2); true'
	until_true 5 sh -c '[ "$(pgrep -fc "^$0")" = 3 ]' "$mark"
	until_true 5 sh -c '! sbxd exec "$0" -- sh -c "cat /proc/[0-9]*/stat" | grep -q ") Z"' "$S"
	t0=$SECONDS
	sbxd stop "$S"
	[ $((SECONDS - t0)) -le 10 ]
	[ "$(pgrep -fc "^$mark" || true)" = 0 ]
}
