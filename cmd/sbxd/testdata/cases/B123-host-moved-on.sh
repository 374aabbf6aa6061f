# The host changed files since the session began. What both changed is a conflict, and
# then nothing lands (DESIGN: all of a landing or none); equal results are none; what
# only the host changed stays. Seen in buildkite/cleanroom#274, mattpocock/sandcastle#256.
host() {
	owner sh -c 'cd "$0"; for f in s both both2 h eq gone; do echo 0 >$f; done' "$PROJECT"
	start
	inside sh -c 'echo S >s; echo S >both; echo S >both2; echo same >eq; rm gone; echo S >add'
	sbxd diff "$S" >/dev/null # by now the project is recorded
	owner sh -c 'cd "$0"; echo H >both; echo H >h; echo same >eq; echo H >gone; mv both2 moved; echo H >add' "$PROJECT"
	status 4 sbxd land --yes "$S"
	for f in both both2 gone add; do said "$f"; done
	not sh -c 'grep -E "conflict.* (s|h|eq)\$" "$0"' "$DIR/err"
	[ "$(cd "$PROJECT" && cat s both moved h eq gone add | tr '\n' ' ')" = '0 H 0 H same H H ' ]
	# Once both sides say the same it lands, and h stays.
	owner sh -c 'cd "$0"; echo S >both; mv moved both2; echo S >both2; rm gone add' "$PROJECT"
	status 0 sbxd land --yes "$S" >/dev/null
	[ "$(cd "$PROJECT" && cat s both both2 h eq add | tr '\n' ' ')" = 'S S S H same S ' ]
	not test -e "$PROJECT/gone"

	# The same holds from the moment at which start returns.
	local p=$HOME/early
	owner sh -c 'mkdir "$0"; cd "$0"; for f in edited removed moved; do echo 0 >$f; done' "$p"
	start --project "$p"
	sbxd exec "$S" -- sh -c 'for f in edited removed moved; do echo S >>$f; done' &
	wait $!
	owner sh -c 'cd "$0"; echo H >edited; rm removed; mv moved away' "$p"
	status 4 sbxd land --yes "$S"
	for f in edited removed moved; do said "$f"; done
	[ "$(ls "$p" | tr '\n' ' ')" = 'away edited ' ]
}
