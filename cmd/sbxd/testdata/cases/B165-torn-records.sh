# Records that are empty, cut or nonsense: the daemon starts, the other sessions are
# there, the broken one is kept and reported, and not swept away.
# Seen in MCSManager/MCSManager#2237, anomalyco/opencode#7607, curusarn/resh#84.
host() {
	local good bad=() files=() torn i s dir
	start --name good
	good=$S
	inside sh -c 'echo kept >kept'
	for i in 0 1 2 3 4 5 6; do
		start --name "bad$i"
		inside sh -c 'echo work >work'
		bad+=("$S")
		files+=("$(sbxd status --json "$S" | sed -n 's/^ *"file": "\(.*\)".*/\1/p')")
		[ $i -lt 5 ] || sbxd stop "$S"
	done
	daemon_stop KILL
	i=0
	for torn in '' '{' null '[]' '{"id":1}' '{"id":"aaaaaaaaaaaa"}'; do
		printf %s "$torn" >"${files[i]}"
		i=$((i + 1))
	done
	head -c 300 /dev/urandom >"${files[i]}"
	daemon_start
	sbxd exec "$good" -- cat kept
	for s in "${bad[@]}"; do
		grep -q "$s.*broken" <<<"$(sbxd list)" || fail "$s is not shown as broken: $(sbxd list)"
		status 7 sbxd exec "$s" -- true
	done
	sbxd sweep >/dev/null
	for i in "${!bad[@]}"; do
		[ -e "${files[i]}" ]
		[ -e "$(dirname "${files[i]}")/project/upper/work" ] || compgen -G "$SBXD_STATE/*/sessions/${bad[i]}/project/upper/work" >/dev/null || fail "the work of ${bad[i]} is gone"
	done
	sbxd exec "$good" -- true
}
