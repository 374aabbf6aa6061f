# Runs one case: bash lib.sh FILE, with the environment that cases_test.go gives.
#
# A case is a file of shell functions. With `work` it is compared with a plain
# directory: base makes $P (the project) and $H (HOME), work runs there once plainly
# and once in a session, check looks at the outcome in both. What work and check print
# and the trees they leave have to be the same, in the view and after landing. With
# `host` it is a course of events, seen from the host.
#
# Beside the program's environment a case has $W (an empty directory of the owner's,
# outside HOME), $PROJECT, $DIR (the machine), $S (the session that start started).
# shellcheck shell=bash
set -eEuo pipefail
trap 'echo "${BASH_SOURCE[0]##*/}:$LINENO: ended with $?: $BASH_COMMAND" >&2' ERR

case_file=$1
text=$(cat "$case_file")
# What a case may set: contents=no where files hold dates or paths; apart=REASON where
# a view differs by design; start_flags for its session; before, run first on the host.
contents=yes apart='' start_flags=()

fail() {
	echo "$*" >&2
	exit 1
}

# not CMD...: it has to fail, which `!` alone would not tell.
not() {
	if "$@"; then fail "should not succeed: $*"; fi
}

# status CODE CMD...: it has to end with CODE. Its standard error is in $DIR/err.
status() {
	local want=$1 got=0
	shift
	"$@" 2>"$DIR/err" || got=$?
	[ "$got" = "$want" ] || fail "$* ended with $got, want $want: $(cat "$DIR/err")"
}

# said RE: the last status wrote such a line.
said() { grep -qE -- "$1" "$DIR/err" || fail "no $1 in: $(cat "$DIR/err")"; }

# start [--project DIR] [FLAG...] starts a session and makes it $S. $BACKEND is the backend
# of those that name none.
start() {
	case "$BACKEND $* " in
	?*' --backend '*) ;;
	?*) set -- "$@" --backend "$BACKEND" ;;
	esac
	case " $* " in
	*' --project '*) S=$(sbxd start "$@" 2>"$DIR/err") || fail "start: $(cat "$DIR/err")" ;;
	*) start --project "$PROJECT" "$@" ;;
	esac
}

inside() { sbxd exec "$S" -- "$@"; }

# land lands what there is; nothing to land is fine.
land() {
	local rc=0
	sbxd land --yes "$S" >"$DIR/landed" 2>"$DIR/err" || rc=$?
	case $rc in
	0 | 3) ;;
	*) fail "land ended with $rc: $(cat "$DIR/err")" ;;
	esac
}

# until_true SECONDS CMD...
until_true() {
	local n=$(($1 * 20))
	shift
	while ! "$@" >/dev/null 2>&1; do
		n=$((n - 1))
		[ $n -gt 0 ] || fail "did not come true: $*"
		sleep 0.05
	done
}

daemon_gone() { [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$DAEMON/status" 2>/dev/null || true)" != S ] && ! sbxd list >/dev/null 2>&1; }

# daemon_stop [SIGNAL]
daemon_stop() {
	: >"$DIR/daemon.stopped"
	kill "-${1:-TERM}" "$DAEMON"
	until_true 10 daemon_gone
}

# daemon_start [CMD...]: starts the daemon again, by way of CMD.
daemon_start() {
	(cd / && exec "$@" sbxd serve $RUN_AS >>"$DIR/daemon.log" 2>&1) &
	DAEMON=$!
	trap 'kill "$DAEMON" 2>/dev/null || :; wait "$DAEMON" || :' EXIT
	until_true 10 sbxd list
}

# The part that also runs as the owner and inside a session.
both=$(
	cat <<'BOTH'
set -eEuo pipefail
trap 'echo "line $LINENO: ended with $?: $BASH_COMMAND" >&2' ERR
umask 022
fail() { echo "$*" >&2; exit 1; }
not() { if "$@"; then fail "should not succeed: $*"; fi; }
base() { :; }
check() { :; }
BOTH
)

# tree DIR lists it: type, mode, name, link target, content. With "landed" what never
# lands is left out: what belongs to git, sockets, FIFOs, set-id bits.
tree_text=$(
	cat <<'TREE'
tree() {
	cd "$1"
	local skip=(-name .git -prune -o)
	if [ "${2:-}" = landed ]; then skip+=('(' -type p -o -type s ')' -prune -o); fi
	find . "${skip[@]}" -printf '%y 000%m %p -> %l\0' | tr '\n\0' '?\n' |
		if [ "${2:-}" = landed ]; then sed -E 's/^(.) [0-9]*([0-9]{3}) /\1 \2 /'; else cat; fi | LC_ALL=C sort
	if [ "${contents:-yes}" = yes ]; then
		find . "${skip[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
	fi
}
TREE
)

# script WORDS... is a program of the case's functions, for bash -c.
script() { printf '%s\n' "$both" "$tree_text" "$text" "contents=$contents" "$*"; }

# plainly HOME CODE...: as the owner, on plain directories.
plainly() {
	local h=$1
	shift
	owner env "H=$h" "P=$h/app" "HOME=$h" LOW= bash -c "cd \"\$P\"; $(script "$@")"
}

viewed() { sbxd exec --env "H=$HOME" --env "P=$PROJECT" --env LOW= "$S" -- bash -c "$(script "$@")"; }

# same NAME GOT WANT FILES
same() { diff -u --label plain --label "$1" "$3" "$2" >&2 || fail "$1 differs from a plain directory"; }

compare() {
	local h=$W/plain
	owner mkdir -p "$h/app"
	plainly "$h" base
	plainly "$h" work >"$DIR/plain.out"
	plainly "$h" tree . >"$DIR/plain.tree"
	plainly "$h" tree . landed >"$DIR/plain.landed"
	plainly "$h" check >>"$DIR/plain.out"
	sed -i "s:$h:HOME:g" "$DIR/plain.out"

	plainly "$HOME" base
	plainly "$HOME" tree . >"$DIR/base.tree"
	sbxd run --project "$PROJECT" --name case --env "H=$HOME" --env "P=$PROJECT" --env LOW= ${BACKEND:+--backend "$BACKEND"} "${start_flags[@]}" -- \
		bash -c "$(script work)" >"$DIR/view.out"
	S=case
	viewed tree . >"$DIR/view.tree"
	viewed check >>"$DIR/view.out"
	sed -i "s:$HOME:HOME:g" "$DIR/view.out"
	same 'output in the session' "$DIR/view.out" "$DIR/plain.out"
	plainly "$HOME" tree . >"$DIR/host.tree"
	diff -u --label before --label 'after the session' "$DIR/base.tree" "$DIR/host.tree" >&2 || fail 'the session changed the real project'
	[ -z "$apart" ] || return 0
	same 'the view' "$DIR/view.tree" "$DIR/plain.tree"
	land
	plainly "$HOME" tree . landed >"$DIR/host.landed"
	same 'the landed project' "$DIR/host.landed" "$DIR/plain.landed"
}

# shellcheck source=/dev/null
. "$case_file"
if declare -F before >/dev/null; then before; fi
if declare -F work >/dev/null; then compare; fi
if declare -F host >/dev/null; then host; fi
