# A directory is removed and a changed copy takes its name.
# Seen in containers/fuse-overlayfs#271, #191, #273.
base() {
	mkdir -p dist/css dist/js
	echo a >dist/css/a.css
	echo b >dist/js/b.js
	ln -s js/b.js dist/entry
}
work() {
	cp -a dist dist.new
	rm -r dist
	mv dist.new/css/a.css dist.new/css/main.css
	mv -T dist.new dist
	# And once more, over what is now of the session's own.
	mkdir dist.new
	echo c >dist.new/c
	rm -r dist
	mv -T dist.new dist
	mkdir dist/js
	echo d >dist/js/d.js
}
check() { find "$P/dist" | sort; }
