# A directory is removed and made again with other content, also several levels deep:
# what it had before does not come back. Seen in binpash/try#163, moby/moby#37313.
base() {
	mkdir -p site/img site/css/old keep
	echo o >site/index
	echo o >site/img/logo
	echo o >site/css/old/a
	echo k >keep/k
}
work() {
	rm -r site/css/old
	mkdir site/css/old
	echo n >site/css/old/b
	rm -r site/img
	mkdir site/img
	rm -r keep
	mkdir -m 700 keep
}
check() { find . | sort; }
