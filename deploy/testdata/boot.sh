#!/bin/sh
# Runs as root on a machine that was booted for it. What fails ends it.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root

# In this machine parts of /proc are covered; a sandbox can mount its own only where a
# whole one is in sight.
mkdir -p /run/proc
mount -t proc proc /run/proc

main() { systemctl show --property=MainPID --value sbxd; }
finally() { # try a command until it works, up to ten seconds
	timeout 10 sh +x -c 'until "$@" >/tmp/last 2>&1; do sleep 0.1; done' - "$@" || {
		echo "never: $*: $(cat /tmp/last)"
		return 1
	}
}

install -d -o 1000 -g 1000 /home/u/p
install -o 1000 -g 1000 /dev/null /home/u/p/file

systemctl start sbxd
sbxd doctor || true
old=$(main)
[ "$old" -gt 1 ]
s=$(sbxd start --project /home/u/p)
sbxd exec "$s" -- sh -c 'echo before >made; id -u'

# A command runs across a restart and does not notice.
sbxd exec "$s" -- sh -c 'echo started >running; while [ ! -e stop ]; do sleep 0.1; done; echo went on >running' &
exec_pid=$!
finally sbxd exec "$s" -- test -s running
systemctl restart sbxd
new=$(main)
[ "$new" != "$old" ]
[ -d /run/sbxd ]
finally sbxd status "$s"
sbxd list | grep -q running
sbxd exec "$s" -- grep before made
sbxd exec "$s" -- touch stop
finally sbxd exec "$s" -- grep 'went on' running
wait "$exec_pid" || true # its client lost the daemon; the command did not

# A crash: systemd starts it again.
kill -9 "$new"
finally sh -c "p=\$(systemctl show --property=MainPID --value sbxd); [ \$p -gt 1 ] && [ \$p != $new ]"
finally sbxd exec "$s" -- grep before made

# Stopped and started: the session is still the same.
systemctl stop sbxd
[ -S "/run/sbxd/s/$s.sock" ]
systemctl start sbxd
finally sbxd exec "$s" -- grep before made

# Nothing of the session was in the real project, and nothing stays.
[ ! -e /home/u/p/made ]
sbxd stop "$s"
sbxd rm --discard "$s"
systemctl stop sbxd
! pgrep -x sbxd
