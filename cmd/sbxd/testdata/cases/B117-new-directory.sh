# New directories are listed as added and land with their mode; what the host made in
# a directory of that name meanwhile is never removed.
# Seen in moby/moby#37880, containers/storage#141.
base() { echo 1 >keep; }
work() {
	mkdir -m 750 fresh
	mkdir -p deep/er/still
	echo x >deep/er/still/f
	mkdir -m 700 empty
}
check() { find . | sort; }
host() {
	local p=$HOME/second
	owner mkdir "$p"
	start --project "$p"
	inside sh -c 'mkdir -m 750 fresh; mkdir both; echo s >both/s'
	[ "$(sbxd diff --stat "$S" | grep -c '^A')" -ge 2 ]
	[ "$(sbxd diff --stat "$S" | grep -c '^D' || true)" = 0 ]
	owner sh -c 'mkdir "$0/fresh" "$0/both"; echo host >"$0/fresh/hostfile"; echo host >"$0/both/h"' "$p"
	# Both made it, with another mode: a conflict, and nothing of the rest lands.
	status 4 sbxd land --yes "$S"
	said fresh
	[ "$(cat "$p/fresh/hostfile" "$p/both/h")" = $'host\nhost' ]
	not test -e "$p/both/s"
	owner chmod 750 "$p/fresh"
	sbxd land --yes "$S" 2>/dev/null >&2
	[ "$(cat "$p/fresh/hostfile" "$p/both/h" "$p/both/s")" = $'host\nhost\ns' ]
}
