# Unknown keys, keys given twice and wrong types stop the program, with file and line.
# Seen in anthropics/claude-code#28730, #46560.
host() {
	local f=$DIR/c.toml
	bad() {
		printf "$1" >"$f"
		status 2 sbxd config check --config "$f"
		said "c\.toml:$2"
	}
	bad 'masks = ["~/.x"]\n[egres]\nallow = 1\n' 2
	bad 'mask = ["~/.x"]\n' 1
	bad 'masks = "~/.x"\n' 1
	bad '\nmasks = [1]\n' 2
	bad 'masks = ["~/.x"]\n\nmasks = []\n' 3
	bad '[limits]\ntmp_mib = "much"\n' 2
	bad '[limits]\ntmp_mib = -1\n' 2
	bad 'masks = [\n' '[12]'
	bad '[limits]\nTMP_MIB = 10\n' 2
	# The daemon does not start with it, and one that runs starts no session.
	printf '[egres]\n' >"$SBXD_CONFIG"
	rc=0
	sbxd start --project "$PROJECT" >/dev/null 2>"$DIR/err" || rc=$?
	[ $rc -eq 2 ] || fail "start ended with $rc: $(cat "$DIR/err")"
	said 'config\.toml:1'
	daemon_stop
	# shellcheck disable=SC2086
	status 2 timeout 10 sbxd serve $RUN_AS
	said 'config\.toml:1'
	: >"$SBXD_CONFIG"
	sbxd config check
}
