# Hard links: each name shows how many there are, at once and every time.
# Seen in containers/fuse-overlayfs#192, #435, #262.
base() {
	echo low >low1
	ln low1 low2
	ln low1 low3
}
work() {
	echo up >up1
	stat -c %h up1
	ln up1 up2
	stat -c %h up1 up2
	ln up2 up3
	rm up1
	stat -c %h up2 up3
	stat -c %h low1
	ls -l low2 >/dev/null
	stat -c %h low1 low2 low3
	echo more >>up3
	cat up2
}
check() {
	stat -c '%n %h' up2 up3 low1 low2 low3
	[ up2 -ef up3 ]
}
host() {
	# Two names of one file land as two names of one file.
	[ "$PROJECT/up2" -ef "$PROJECT/up3" ]
}
