# A watch on a directory tells of every change to a file of the base: appended to,
# replaced by rename, removed and made again. Seen in moby/moby#47061, #11705,
# docker/compose#11090.
# Needs: python3
base() {
	mkdir web
	echo 0 >web/page.html
}
work() {
	python3 - <<'PY'
import ctypes, os, select, struct
libc = ctypes.CDLL(None)
MODIFY, MOVED_TO, CREATE, DELETE = 0x2, 0x80, 0x100, 0x200
fd = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(fd, b'web', MODIFY | MOVED_TO | CREATE | DELETE) >= 0

def expect(what, bits):
    seen = 0
    while seen & bits != bits:
        assert select.select([fd], [], [], 3)[0], f'{what}: saw only {seen:#x}'
        buf = os.read(fd, 65536)
        while buf:
            _, mask, _, n = struct.unpack_from('iIII', buf)
            if buf[16:16 + n].rstrip(b'\0') == b'page.html':
                seen |= mask
            buf = buf[16 + n:]

for i in range(3):
    with open('web/page.html', 'a') as f:
        f.write('x')
    expect(f'append {i}', MODIFY)
    with open('web/new', 'w') as f:
        f.write('y')
    os.rename('web/new', 'web/page.html')
    expect(f'rename {i}', MOVED_TO)
    os.unlink('web/page.html')
    with open('web/page.html', 'w') as f:
        f.write('z')
    expect(f'recreate {i}', DELETE | CREATE | MODIFY)
PY
}
check() { cat web/page.html; }
