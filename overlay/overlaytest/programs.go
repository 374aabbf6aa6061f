package overlaytest

// programs are cases in which a program depends on the finer promises of a file
// system.
var programs = []oneCase{
	{
		name: "B024 unlinked but open", report: "containers/fuse-overlayfs#175", needs: []string{"python3"},
		setup: `echo abc >low`,
		session: `python3 - <<'E'
import os
new = open('new', 'w+b')
os.unlink('new')
assert os.fstat(new.fileno()).st_nlink == 0
new.truncate(10); new.write(b'hello'); new.flush(); new.seek(0)
assert new.read(5) == b'hello' and os.fstat(new.fileno()).st_size == 10
low = open('low', 'r+b')
os.unlink('low')
low.write(b'X'); low.seek(0)
assert low.read() == b'Xbc\n'
assert os.fstat(low.fileno()).st_nlink == 0
out = os.open('out', os.O_CREAT | os.O_WRONLY)
os.unlink('out')
assert os.copy_file_range(low.fileno(), out, 4, 0, 0) == 4
assert os.listdir('.') == []
E`,
		check: `test -z "$(ls -A)"`,
	},
	{
		name: "B026 git packs", report: "containers/fuse-overlayfs#399", needs: []string{"git"}, loose: true,
		session: `git init -q r; cd r; echo a >a; git add a
git -c user.name=u -c user.email=u@example.org commit -qm x; git gc -q; git clone -q . ../r2; git fsck`,
		check: `test -f r2/a; git -C r2 status --porcelain`,
	},
	{
		name: "B032 locks between processes", report: "deepcoldy/botmux#362", needs: []string{"python3"},
		setup: `echo l >l; echo m >m`,
		session: `python3 - <<'E'
import fcntl, os
def taken(name, lock):
    pid = os.fork()
    if pid == 0:
        try:
            lock(open(name, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
for name, lock in (('l', fcntl.lockf), ('m', fcntl.flock), ('n', fcntl.flock)):
    f = open(name, 'a+')           # copies up: the lock is on the file of the view
    old = open(name, 'r+')
    lock(f, fcntl.LOCK_EX)
    assert taken(name, lock), name
    lock(f, fcntl.LOCK_UN)
    assert not taken(name, lock), name
E`,
		check: `test -e n`,
	},
	{
		name: "B034 watchers", report: "moby/moby#47061", needs: []string{"python3"},
		setup: `mkdir src; echo 0 >src/a.js`,
		session: `python3 - <<'E'
import ctypes, os, select, struct
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(fd, b'src', 0x2 | 0x80 | 0x100 | 0x200) >= 0
def seen():
    names = set()
    while b'a.js' not in names and select.select([fd], [], [], 2)[0]:
        buf = os.read(fd, 65536)
        while buf:
            n = struct.unpack_from('iIII', buf)[3]
            names.add(buf[16:16 + n].rstrip(b'\0'))
            buf = buf[16 + n:]
    return b'a.js' in names
for i in range(3):
    open('src/a.js', 'a').write('x')
    assert seen(), ('append', i)
    open('src/.t', 'w').write('y'); os.rename('src/.t', 'src/a.js')
    assert seen(), ('rename over', i)
    os.unlink('src/a.js'); open('src/a.js', 'w').write('z')
    assert seen(), ('unlink and create', i)
E`,
		check: `test "$(cat src/a.js)" = z`,
	},
	{
		name: "B038 git init", report: "airnandez/cluefs#3", needs: []string{"git"}, loose: true,
		session: `git init -q g; git -C g config a.b c; test "$(git -C g config --get a.b)" = c`,
		check:   `test -s g/.git/config`,
	},
	{
		name: "B040 attributes at copy-up", report: "google/gvisor#13262", needs: []string{"setfattr", "getfattr"},
		setup:   `echo x >f; setfattr -n user.note -v hi f; mkdir d; setfattr -n user.note -v dir d`,
		session: `echo y >>f; echo z >d/n; cp -a f g`,
		check: `test "$(getfattr --only-values -n user.note f)" = hi
test "$(getfattr --only-values -n user.note d)" = dir; test "$(wc -l <g)" = 2`,
	},
	{
		name: "B042 links and renames across views", report: "oven-sh/bun#36853", needs: []string{"python3"},
		session: `test -z "$LOW" || python3 - <<'E'
import errno, os
home, project = os.environ['H'], os.environ['P']
for call, name in ((os.link, 'n1'), (os.rename, 'n2')):
    try:
        call(home + '/.cache/pkg', project + '/' + name)
    except OSError as e:
        assert e.errno == errno.EXDEV, (call, e)
    else:
        raise SystemExit('worked across views')
E`,
		check: `test -e "$H/.cache/pkg"; test ! -e n1; test ! -e n2`,
	},
	{
		name: "sqlite with a write-ahead log", report: "microsoft/WSL#2395", needs: []string{"python3"},
		setup: `python3 -c "
import sqlite3
c = sqlite3.connect('db'); c.execute('create table t(x)'); c.execute('pragma journal_mode=wal')
c.execute('insert into t values(1)'); c.commit(); c.close()"`,
		session: `python3 - <<'E'
import sqlite3
a, b = sqlite3.connect('db', timeout=0), sqlite3.connect('db', timeout=0)
a.execute('begin immediate'); a.execute('insert into t values(2)')
try:
    b.execute('begin immediate')
    raise SystemExit('two writers')
except sqlite3.OperationalError:
    pass
a.commit()
assert [r[0] for r in b.execute('select x from t order by x')] == [1, 2]
E`,
		check: `test "$(python3 -c "import sqlite3; print(sqlite3.connect('db').execute('select sum(x) from t').fetchone()[0])")" = 3`,
		loose: true,
	},
	{
		name: "sqlite from four processes", report: "microsoft/WSL#2395", needs: []string{"python3"}, loose: true,
		setup: `python3 -c "
import sqlite3
c = sqlite3.connect('db'); c.execute('pragma journal_mode=wal')
c.execute('create table t(who, n)'); c.commit(); c.close()"`,
		session: `python3 - <<'E'
import os, sqlite3
def work(who):
    c = sqlite3.connect('db', timeout=60, isolation_level=None)
    for n in range(100):
        c.execute('begin immediate'); c.execute('insert into t values(?, ?)', (who, n)); c.execute('commit')
        assert c.execute('select count(*) from t where who = ?', (who,)).fetchone()[0] == n + 1
pids = []
for who in range(4):
    pid = os.fork()
    if pid == 0:
        try:
            work(who); os._exit(0)
        finally:
            os._exit(1)
    pids.append(pid)
assert all(os.waitpid(p, 0)[1] == 0 for p in pids)
E`,
		check: `test "$(python3 -c "
import sqlite3
c = sqlite3.connect('db')
print(c.execute('select count(*), count(distinct who), sum(n) from t').fetchone(), c.execute('pragma integrity_check').fetchone())")" = "(400, 4, 19800) ('ok',)"`,
	},
	{
		name: "git rebases and packs a history of the base", report: "anthropics/claude-code#67646", needs: []string{"git"}, loose: true,
		setup: gitUser + `git init -q -b main r; cd r; for i in $(seq 20); do echo $i >f$i; git add f$i; git commit -qm $i; done
git checkout -q -b side HEAD~10; echo s >s; git add s; git commit -qm s; git checkout -q main`,
		session: gitUser + `cd r; git checkout -q side; git rebase -q main; git reflog expire --expire=now --all
git gc -q --prune=now; git fsck --strict; git checkout -q main; git merge -q --ff-only side; git repack -adq`,
		check: `cd r; test -z "$(git status --porcelain)"; test "$(git log --oneline | wc -l)" = 21; test "$(cat s f20)" = "$(printf 's\n20')"; git fsck`,
	},
	{
		name: "C is compiled and linked", report: "containers/fuse-overlayfs#399", needs: []string{"cc", "make"}, loose: true,
		setup: `for i in 1 2 3 4 5 6; do echo "int f$i(void) { return $i; }" >f$i.c; done
echo 'int f1(void), f6(void); int main(void) { return f1() + f6() - 7; }' >main.c
printf 'all: main f1.o f2.o f3.o f4.o f5.o f6.o\n\tcc -o app *.o\nmain: main.o\n\t:\n%%.o: %%.c\n\tcc -c $<\n' >Makefile`,
		session: `make -s -j4 >/dev/null; ./app; echo 'int f6(void) { return 8; }' >f6.c; make -s -j4 >/dev/null`,
		check:   `if ./app; then exit 9; else test $? = 2; fi; test -s f3.o`,
	},
}

// gitUser is what git wants to know of whoever commits.
const gitUser = "export GIT_AUTHOR_NAME=u GIT_AUTHOR_EMAIL=u@example.org GIT_COMMITTER_NAME=u GIT_COMMITTER_EMAIL=u@example.org\n"
