# Modes set by newer system calls and on special files hold, and stay in the session.
# Seen in multikernel/sandlock#211.
# Needs: python3
base() {
	echo x >f
	chmod 644 f
	ln -s f link
}
work() {
	mkfifo -m 640 pipe
	python3 - <<'PY'
import ctypes, os
os.chmod('f', 0o600, follow_symlinks=False)
try:
    os.chmod('link', 0o600, follow_symlinks=False)
except (OSError, NotImplementedError):
    print('a link has no mode of its own')
# fchmodat2 itself, which older C libraries do not call.
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(452, -100, b'f', 0o604, 0x100) != 0:
    assert ctypes.get_errno() == 38, ctypes.get_errno()
    os.chmod('f', 0o604)
PY
	echo through >pipe &
	cat pipe
	wait
}
check() { stat -c '%n %a %F' pipe f link; }
