# Layers whose paths do not fit into one page of mount options, and a project whose own
# path no system call takes whole. Seen in docker/for-linux#1012, earthly/earthly#1188.
host() {
	local part d=$W i
	part=$(printf 'segment-%.0s' {1..25})
	for i in {1..9}; do d=$d/$part; done
	owner mkdir -p "$d"
	owner sh -c 'echo low >"$0/f"' "$d"
	start --project "$d" --mask "$d/secret"
	inside sh -c '[ "$(cat f)" = low ] && mkdir -p far/below && echo new >far/below/g'
	not inside sh -c 'echo x >secret'
	land
	[ "$(cat "$d/far/below/g")" = new ]

	# Beyond PATH_MAX there is no such argument: refused in one line, nothing is made.
	for i in {1..20}; do d=$d/$part; done
	status 2 sbxd start --project "$d"
	said 'longer than'
	[ "$(sbxd list -q | wc -l)" = 1 ]
}
