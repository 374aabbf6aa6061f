# The host replaces a shared file by rename. The session sees the new one within a second,
# be it shared by itself or by its directory.
# Seen in deepcoldy/botmux#1113, openclaw/openclaw#124682.

# replace FILE TEXT: as editors do.
replace() { owner sh -c 'echo "$2" >"$1.new"; mv "$1.new" "$1"' - "$1" "$2"; }

shows() { [ "$(inside cat "$1")" = "$2" ]; }

# soon FILE TEXT: the session reads it within the second that is promised.
soon() { until_true 1 shows "$1" "$2"; }

host() {
	owner sh -c 'mkdir "$0/dir" "$0/two" "$0/closed"; for f; do echo 1 >"$f"; done; echo SECRET >"$0/secret"' \
		"$W" "$W/dir/f" "$W/two/a" "$W/two/b" "$W/closed/f" "$HOME/mine" "$PROJECT/ours"
	owner chmod 311 "$W/closed" # which nobody may list, nor watch
	FILES=("$W/two/a" "$W/two/b" "$W/closed/f" "$HOME/mine" "$PROJECT/ours")
	ro=()
	for f in "$W/dir" "${FILES[@]}"; do ro+=(--ro "$f"); done
	start "${ro[@]}"
	[ ! -s "$DIR/err" ] || fail "a warning: $(cat "$DIR/err")"
	for f in "$W/dir/f" "${FILES[@]}"; do shows "$f" 1; done

	replace "$W/dir/f" 2
	shows "$W/dir/f" 2
	for f in "${FILES[@]}"; do
		replace "$f" 2
		soon "$f" 2
		not inside sh -c 'echo x >"$0"' "$f"
		not inside sh -c 'rm -f "$0"; mv "$0" "$0.old"; umount "$0"; [ ! -e "$0" ]' "$f"
		shows "$f" 2
	done
	without_end
	what_is_no_file
	[ "$(owner cat "${FILES[@]}" | sort -u)" = 5 ]
	sbxd rm "$S"
	of_an_agent
}

# Replaced without end, it is at all times one of its versions, or cannot be opened for
# just the moment in which one goes; who has one open keeps that.
without_end() {
	local f=$W/two/a
	inside sh -c 'exec 3<"$0"; touch /tmp/reads; n=0
		while [ ! -e /tmp/enough ]; do
			v=$(cat "$0" 2>/dev/null) || continue
			case $v in "" | *[!0-9]*) echo "read: $v"; exit 1 ;; esac
			n=$((n + 1))
		done
		read -r v <&3; [ "$v" = 2 ]; echo "reads: $n"; [ $n -gt 20 ]' "$f" >"$DIR/reader" 2>&1 &
	local reader=$!
	until_true 5 inside test -e /tmp/reads
	owner sh -c 'n=0; while [ $n -lt 200 ]; do n=$((n + 1)); echo $n >"$0.new"; mv "$0.new" "$0"; done' "$f"
	soon "$f" 200
	inside touch /tmp/enough
	wait $reader || fail "a reader saw something else: $(cat "$DIR/reader")"
}

# What comes in its place and is no file is not shown; the file that comes after it is.
what_is_no_file() {
	local f
	for f in "${FILES[@]}"; do
		replace "$f" 3
		soon "$f" 3
		owner sh -c 'rm "$0"; ln -s "$1" "$0"' "$f" "$W/secret"
		sleep 0.7
		shows "$f" 3
		owner sh -c 'rm "$0"; mkdir "$0"; echo SECRET >"$0/f"' "$f"
		sleep 0.7
		shows "$f" 3
		owner sh -c 'rm -r "$0"; mkfifo "$0"' "$f"
		sleep 0.7
		shows "$f" 3
		owner sh -c 'rm "$0"; echo 4 >"$0"' "$f"
		soon "$f" 4
		owner sh -c 'echo 5 >"$0"' "$f" # in its place, without a rename
		soon "$f" 5
	done
}

# What an agent reads of the host lies in a directory of its own, which it may write.
of_an_agent() {
	local f=$HOME/.claude/CLAUDE.md
	owner sh -c 'mkdir "${0%/*}"; echo 1 >"$0"' "$f"
	start --agent claude-code
	shows "$f" 1
	replace "$f" 2
	soon "$f" 2
	inside touch "${f%/*}/own"
	not inside sh -c 'echo x >"$0"' "$f"
	not inside mv "$f" "$f.old"
	sbxd rm --discard "$S"
	find "$SBXD_STATE" -depth -path '*/agents/*' -delete # which outlasts sessions
}
