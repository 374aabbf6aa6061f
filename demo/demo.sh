#!/bin/bash
# The whole way once, on this machine: a private daemon, a small git project, a session
# in which an agent-like script works, its diff, a landing, its undo, stop and sweep.
# Everything lives in one directory that is gone at the end; what is left behind makes
# the demo fail. As root the session runs as an ordinary uid.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "building sbxd"
make -s build
.ci/setup

top=$(mktemp -d /tmp/sbxd-demo.XXXXXX)
home=$top/home app=$top/home/work/app
sbxd=$PWD/bin/sbxd
export SBXD_STATE=$top/state SBXD_SOCKET=$top/run/sbxd.sock SBXD_CONFIG=$top/config.toml
daemon=

run_as=()
me=()
if [ "$(id -u)" = 0 ]; then
	uid=60000
	while getent passwd "$uid" >/dev/null; do uid=$((uid + 1)); done
	run_as=(--run-as "$uid")
	me=(setpriv --reuid "$uid" --regid "$uid" --clear-groups)
fi
# The owner of the project: an ordinary uid, with nothing of ours in the environment.
owner() { "${me[@]}" env -i PATH="$PATH" HOME="$home" GOFLAGS=-buildvcs=false "$@"; }

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }

# Names every process that runs our binary, under whatever name.
processes() {
	for p in /proc/[0-9]*; do
		[ ! "$p/exe" -ef "$sbxd" ] || echo "process ${p#/proc/}"
	done
}
# Names every mount of any namespace that has to do with this run.
mounts() { cat /proc/[0-9]*/mountinfo 2>/dev/null | grep -F "$top" | sort -u; }
running=$(processes)

cleanup() {
	local rc=$?
	trap - EXIT
	trap '' INT TERM HUP PIPE # also when nobody reads any more
	set +e
	if [ -n "$daemon" ]; then
		"$sbxd" list -q 2>/dev/null | while read -r id; do "$sbxd" rm --discard "$id"; done
		{ kill "$daemon" && wait "$daemon"; } 2>/dev/null || true
	fi
	if [ $rc != 0 ] && [ -s "$top/daemon.log" ]; then
		echo "the daemon said:" >&2
		tail -n 20 "$top/daemon.log" >&2
	fi
	rm -rf "$top"
	exit $rc
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP PIPE

# --- a machine of its own ---------------------------------------------------------
chmod 0755 "$top"
mkdir -p "$app/docs" "$home/.ssh" "$top/run"
: >"$SBXD_CONFIG"
echo "not a real key" >"$home/.ssh/id_ed25519"
printf 'module app\n\ngo 1.21\n' >"$app/go.mod"
printf 'package main\n\nfunc main() { println("hello") }\n' >"$app/main.go"
echo "to be deleted" >"$app/old.txt"
echo "read me first" >"$app/docs/guide.txt"
echo "/app" >"$app/.gitignore"
printf '[user]\n\tname = Demo\n\temail = demo@example.org\n' >"$home/.gitconfig"
[ "$(id -u)" != 0 ] || chown -R "$uid:$uid" "$home"
owner git -C "$app" init -q
owner git -C "$app" add -A
owner git -C "$app" commit -q -m "first"
tree() { (cd "$app" && find . -path ./.git -prune -o -type f -exec sha256sum {} + | sort -k 2); }
before=$(tree)

say "a private daemon"
# Of a group of its own: Ctrl-C is for us, who still need it to clear up.
HOME=$home setsid "$sbxd" serve "${run_as[@]}" >"$top/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
	"$sbxd" list >/dev/null 2>&1 && break
	kill -0 "$daemon" || exit 1
	sleep 0.05
done
export HOME=$home

say "sbxd start --project $app"
S=$("$sbxd" start --project "$app")
echo "$S"
"$sbxd" status "$S"

say "sbxd exec $S -- sh -s   (an agent-like script)"
"$sbxd" exec "$S" -- sh -s <demo/agent.sh
[ "$(tree)" = "$before" ] || { echo "the project changed before the landing" >&2; exit 1; }
for place in "$top/escaped" "$home/.profile"; do
	[ ! -e "$place" ] || { echo "$place came out of the session" >&2; exit 1; }
done

say "sbxd diff $S"
"$sbxd" diff "$S"

say "sbxd land --yes $S"
"$sbxd" land --yes "$S"
L=$("$sbxd" lands --json | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -n 1)
grep -q "hello from the session" "$app/main.go"
[ ! -e "$app/old.txt" ] && [ -e "$app/docs/manual.txt" ] && [ -e "$app/notes/log.txt" ]

say "sbxd undo --yes $L"
"$sbxd" undo --yes "$L"
[ "$(tree)" = "$before" ] || { echo "the project is not what it was before the landing" >&2; exit 1; }

say "sbxd stop $S; sbxd rm --discard $S; sbxd sweep"
"$sbxd" stop "$S"
"$sbxd" rm --discard "$S"
"$sbxd" sweep

say "nothing is left"
kill "$daemon"
wait "$daemon" || true
daemon=
rest=$(
	comm -13 <(sort <<<"$running") <(processes | sort)
	mounts
	find "$SBXD_STATE" "$top/run" -path '*/sessions/*' -o -name '*.sock'
)
if [ -n "$rest" ]; then
	printf 'left behind:\n%s\n' "$rest" >&2
	exit 1
fi
rm -rf "$top"
[ ! -e "$top" ]
echo "no mount, no process, no file"
