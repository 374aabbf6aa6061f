# Only the mode changed: listed as that, and landed without new bytes, inode or time.
# Seen in multikernel/sandlock#58, tytso/e2fsprogs#170.
base() {
	printf '#!/bin/sh\n' >run.sh
	chmod 644 run.sh
	echo s >secret
	chmod 755 secret
	mkdir -m 755 d
	touch -d 2019-01-01 run.sh secret
}
work() {
	chmod 755 run.sh
	chmod 600 secret
	chmod 700 d
}
check() { stat -c '%n %a %Y' run.sh secret; }
host() {
	[ "$(stat -c '%a %Y' "$PROJECT/run.sh")" = "755 $(date -d 2019-01-01 +%s)" ]
	local p=$HOME/second before after
	owner sh -c 'mkdir "$0"; echo x >"$0/f"; chmod 644 "$0/f"' "$p"
	before=$(stat -c '%i %Y' "$p/f")
	start --project "$p"
	inside chmod 755 f
	sbxd diff --stat "$S" >"$DIR/diff"
	grep -qE 'f +.*0?644 -> 0?755' "$DIR/diff" || fail "$(cat "$DIR/diff")"
	land
	after=$(stat -c '%i %Y' "$p/f")
	[ "$before" = "$after" ]
	[ "$(stat -c %a "$p/f")" = 755 ]
}
