# A name is used again right after it was renamed away, as git does with its lock
# files. Seen in anthropics/claude-code#67646, airnandez/cluefs#3.
# Needs: git
base() { echo v0 >state; }
work() {
	for i in 1 2 3 4 5 6 7 8; do
		printf 'v%s\n' "$i" >state.lock
		chmod 640 state.lock
		mv state.lock state
		: >state.lock
		[ "$(cat state)" = "v$i" ]
		[ "$(stat -c '%a %s' state)" = '640 3' ]
		rm state.lock
	done
	git -c init.defaultBranch=main init -q repo
	for i in 1 2 3; do git -C repo config "case.n$i" "$i"; done
	git -C repo config --get-regexp '^case'
}
check() { cat state; }
