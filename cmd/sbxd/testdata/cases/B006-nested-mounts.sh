# Mounts of the host below HOME and below the project: they are shown read-only, and
# what is beside them can be written. Seen in containers/bubblewrap#685, binpash/try#86.
# Needs: root
host() {
	owner mkdir -p "$HOME/disk" "$PROJECT/data"
	mount -t tmpfs -o mode=0777 disk "$HOME/disk"
	mount -t tmpfs -o mode=0777 data "$PROJECT/data"
	trap 'umount "$HOME/disk" "$PROJECT/data"' EXIT
	owner sh -c 'echo one >"$0/disk/f"; echo two >"$1/data/f"' "$HOME" "$PROJECT"
	start
	[ "$(inside sh -c 'cat ~/disk/f data/f')" = $'one\ntwo' ]
	inside sh -c 'echo x >~/beside; echo x >beside; mkdir ~/d; mv ~/beside ~/d/'
	not inside sh -c 'echo x >~/disk/g'
	not inside sh -c 'echo x >data/g'
	not inside rm -f data/f
	land
	[ "$(ls "$HOME/disk" "$PROJECT/data" | grep -c '^f$')" = 2 ]
	not test -e "$HOME/disk/g"
	not test -e "$PROJECT/data/g"
	[ -f "$PROJECT/beside" ]
}
