# A rename that changes only the case of letters: the new name only, content kept.
# Seen in syncthing/syncthing#1787, nextcloud/server#7452.
base() {
	echo r >README.md
	mkdir Lib
	echo s >Lib/Main.c
	mkdir Up
	echo u >Up/u
}
work() {
	mv README.md readme.md
	mv -T Lib lib.tmp
	mv -T lib.tmp lib
	mv lib/Main.c lib/main.c
	mkdir up
	mv Up/u up/U
	rmdir Up
}
check() { find . | sort; }
