# A temporary file that has no name any more, and a file of the base that loses its
# name while it is open. Seen in containers/fuse-overlayfs#175, #368, #46.
# Needs: python3
base() { echo abcdef >low; }
work() {
	python3 - <<'PY'
import os, mmap
f = open('tmp', 'w+b')
os.unlink('tmp')
f.truncate(4096)
f.write(b'first')
f.flush()
assert os.pread(f.fileno(), 5, 0) == b'first'
assert os.fstat(f.fileno()).st_size == 4096 and os.fstat(f.fileno()).st_nlink == 0
m = mmap.mmap(f.fileno(), 4096)
m[0:5] = b'again'
m.flush()
assert os.pread(f.fileno(), 5, 0) == b'again'
g = open('copy', 'w+b')
assert os.copy_file_range(f.fileno(), g.fileno(), 4096, 0, 0) == 4096
os.unlink('copy')
assert os.pread(g.fileno(), 5, 0) == b'again'
low = open('low', 'r+b')
os.unlink('low')
os.pwrite(low.fileno(), b'X', 0)
assert os.pread(low.fileno(), 7, 0) == b'Xbcdef\n'
o = os.open('.', os.O_TMPFILE | os.O_RDWR)
os.write(o, b'linked')
os.link(f'/proc/self/fd/{o}', 'late', src_dir_fd=os.open('.', os.O_PATH), follow_symlinks=True)
print(os.listdir('.'))
PY
}
check() { cat late; }
