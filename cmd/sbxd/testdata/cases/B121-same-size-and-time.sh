# An edit that keeps size and time of the file, or the length of a link's target, is a
# change. Seen in moby/moby#31805, rust-lang/cargo#9312.
base() {
	echo AAAA >f
	echo AAAA >kept
	ln -s one l
	touch -d 2021-02-03 f kept
	touch -h -d 2021-02-03 l
}
work() {
	cp -p f stamp
	echo BBBB >f
	touch -r stamp f
	rm stamp
	ln -sfn two l
	touch -h -d 2021-02-03 l
	cp -p kept k2
	mv k2 kept
}
check() { stat -c '%n %Y' f kept; }
host() {
	local p=$HOME/second
	owner sh -c 'mkdir "$0"; cd "$0"; echo AAAA >f; echo AAAA >kept; ln -s one l; touch -hd 2021-02-03 f kept l' "$p"
	start --project "$p"
	inside sh -c 'cp -p f s; echo BBBB >f; touch -r s f; rm s; ln -sfn two l; touch -hd 2021-02-03 l; cp -p kept k2; mv k2 kept'
	# A file that was only written with its own bytes is no change.
	[ "$(sbxd diff --stat "$S" | grep -E '^[A-Z] ' | tr -s ' ' | sort | tr '\n' ',')" = 'M f,M l (-> two),' ] || fail "$(sbxd diff --stat "$S")"
}
