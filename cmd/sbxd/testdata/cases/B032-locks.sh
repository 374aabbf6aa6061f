# Locks of two processes exclude each other, in the project and in HOME: byte ranges,
# whole files, SQLite. Seen in deepcoldy/botmux#362, microsoft/WSL#2395.
# Needs: python3
base() { echo low >low; }
work() {
	python3 - <<'PY'
import fcntl, os, sqlite3
home = os.environ['H']
for d in ('.', home):
    paths = [d + '/ranges', d + '/whole', 'low']
    held = [open(p, 'a+') for p in paths]
    fcntl.lockf(held[0], fcntl.LOCK_EX, 10, 5)
    fcntl.flock(held[1], fcntl.LOCK_EX)
    fcntl.flock(held[2], fcntl.LOCK_SH)
    if os.fork() == 0:
        def refused(call, *args):
            try:
                call(*args)
            except BlockingIOError:
                return True
            return False
        r, w, low = (open(p, 'r+') for p in paths)
        os._exit(0 if refused(fcntl.lockf, r, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 8)
                 and not refused(fcntl.lockf, r, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)
                 and refused(fcntl.flock, w, fcntl.LOCK_SH | fcntl.LOCK_NB)
                 and not refused(fcntl.flock, low, fcntl.LOCK_SH | fcntl.LOCK_NB)
                 and refused(fcntl.flock, low, fcntl.LOCK_EX | fcntl.LOCK_NB) else 1)
    assert os.wait()[1] == 0, d
    first = sqlite3.connect(d + '/db', isolation_level=None)
    first.execute('create table t (n)')
    first.execute('begin immediate')
    first.execute('insert into t values (1)')
    if os.fork() == 0:
        second = sqlite3.connect(d + '/db', isolation_level=None, timeout=0)
        try:
            second.execute('insert into t values (2)')
        except sqlite3.OperationalError as e:
            os._exit(0 if 'locked' in str(e) else 1)
        os._exit(1)
    assert os.wait()[1] == 0, d
    first.execute('commit')
    first.close()
    os.unlink(d + '/db')
PY
}
check() { ls "$P"; }
