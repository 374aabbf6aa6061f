# Thousands of masked paths start; a pattern holds for what appears later, or is refused
# by name where nothing can hold it; it is never expanded once. Seen in anthropics/claude-code#74081, containers/bubblewrap#703.
host() {
	local n=2000
	owner sh -c 'mkdir "$0/data"; cd "$0/data"; seq -f "part-%05g.bin" '$n' | xargs touch; echo SECRET >part-00777.bin; echo open >index' "$PROJECT"
	status 7 sbxd start --project "$PROJECT" --backend kernel --mask '**/*.bin'
	said pattern
	start --mask '**/*.bin'
	[ "$(inside ls data)" = index ]
	owner sh -c 'echo later >"$0/data/later.bin"' "$PROJECT"
	not inside cat data/later.bin data/part-00777.bin
	sbxd rm --discard "$S"
	{
		printf 'masks = [\n'
		seq -f "\"$PROJECT/data/part-%05g.bin\"," $n
		printf ']\n'
	} >"$SBXD_CONFIG"
	start
	[ "$(inside cat data/index)" = open ]
	not inside grep -rq SECRET data
	not inside sh -c 'echo x >data/part-01999.bin'
	sbxd stop "$S"

	# More than start in a few seconds are refused, and what to do instead is said.
	{
		printf 'masks = [\n'
		seq -f "\"$PROJECT/data/shard-%05g.bin\"," 12000
		printf ']\n'
	} >"$SBXD_CONFIG"
	status 7 sbxd start --project "$PROJECT"
	said 'mask the directory'

	# One directory does the same.
	printf 'masks = ["%s"]\n' "$PROJECT/data" >"$SBXD_CONFIG"
	start
	[ -z "$(inside ls -A data)" ]
}
