# A directory becomes a file, a file a directory, a link either: one landing does it.
# What the host changed below meanwhile is a conflict.
# Seen in docker/for-linux#307, buildkite/cleanroom#292.
base() {
	mkdir -p tree/x/y links
	echo 1 >tree/x/y/f
	echo 2 >flat
	ln -s tree links/to-dir
	mkdir -p other/z
	echo 3 >other/z/f
}
work() {
	rm -r tree
	echo 'a file now' >tree
	rm flat
	mkdir -p flat/g
	echo 4 >flat/g/h
	rm links/to-dir
	mkdir links/to-dir
	echo 5 >links/to-dir/i
	rm -r other
	ln -s flat other
}
check() { find . | sort; }
host() {
	local p=$HOME/second
	owner sh -c 'mkdir -p "$0/d/x"; echo 1 >"$0/d/x/f"; echo 2 >"$0/a"' "$p"
	start --project "$p"
	inside sh -c 'rm -r d; echo file >d; echo S >a'
	owner sh -c 'echo host >"$0/d/x/new"; echo host >"$0/d/x/f"' "$p"
	status 4 sbxd land --yes "$S"
	said 'd'
	[ "$(cat "$p/d/x/new" "$p/d/x/f" "$p/a")" = $'host\nhost\n2' ]
}
