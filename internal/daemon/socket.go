package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/session"
)

// maxSunPath is the longest path that bind(2) takes (unix(7): 108 with its NUL).
const maxSunPath = 107

// listener is the API's socket; Close removes it when it is still ours.
type listener struct {
	*net.UnixListener
	path string
	ino  uint64
}

// listen makes the socket at path, mode 0600, in a directory that is there or is made
// with mode 0700. The socket of a dead daemon is taken over; ErrBusy when somebody
// answers on it.
func listen(path string) (*listener, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("socket %q: %w: it has to be an absolute path", path, session.ErrRefused)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the socket: %w", err)
	}
	short, done, err := shorten(path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer done()
	if err := clearStale(short); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	// No other uid may connect between bind and chmod.
	old := unix.Umask(0o177)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, errors.Unwrap(err))
	}
	ln.SetUnlinkOnClose(false) // it would unlink a successor's
	l := &listener{UnixListener: ln, path: path}
	var st unix.Stat_t
	if err := unix.Lstat(short, &st); err != nil {
		ln.Close()
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	l.ino = st.Ino
	return l, nil
}

// Close stops listening and removes the socket.
func (l *listener) Close() error {
	err := l.UnixListener.Close()
	short, done, serr := shorten(l.path)
	if serr != nil {
		return err
	}
	defer done()
	var st unix.Stat_t
	if unix.Lstat(short, &st) == nil && st.Ino == l.ino {
		_ = os.Remove(short)
	}
	return err
}

// shorten returns a path to the same socket that bind(2) and connect(2) take, good
// until done is called.
func shorten(path string) (short string, done func(), err error) {
	if len(path) <= maxSunPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	short = "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(path)
	if len(short) > maxSunPath {
		unix.Close(fd)
		return "", nil, fmt.Errorf("%w: its name is longer than %d bytes", session.ErrRefused, maxSunPath-len(short)+len(filepath.Base(path)))
	}
	return short, func() { unix.Close(fd) }, nil
}

// clearStale removes a socket that nobody listens on.
func clearStale(short string) error {
	st, err := os.Lstat(short)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: something that is no socket is in its place", session.ErrRefused)
	}
	conn, err := net.DialTimeout("unix", short, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%w: a daemon answers on it", session.ErrBusy)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%w: looking for a daemon: %w", session.ErrBusy, errors.Unwrap(err))
	}
	return os.Remove(short)
}
