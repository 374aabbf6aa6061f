package unionfs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// work is the scratch directory beside the upper. What is made there has names
// that begin with '#', and is removed when a server starts.
type work struct {
	fd   int // O_RDONLY, locked
	next atomic.Uint64

	mu    sync.Mutex // guards the field below
	white bool       // whiteName is there
}

// whiteName is the one whiteout that all others are links to.
const whiteName = "#whiteout"

// lockPatience is how long a start waits for the server before it, which has
// noticed the end of its mount or will at once.
const lockPatience = 3 * time.Second

// openWork takes the scratch directory: two servers on one upper would not know of
// each other's changes.
func openWork(dir int) (*work, error) {
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open work directory: %w", err)
	}
	w := &work{fd: fd}
	for end := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("lock work directory, which another server uses: %w", err)
	}
	w.sweep()
	return w, nil
}

// sweep removes what an earlier server left unfinished.
func (w *work) sweep() {
	names, err := readDir(w.fd)
	if err != nil {
		return
	}
	for _, de := range names {
		if de.name[0] == '#' {
			w.remove(de.name)
		}
	}
}

func (w *work) close() {
	if w == nil {
		return
	}
	w.remove(whiteName)
	_ = unix.Close(w.fd)
}

// tempName returns a name that nothing has.
func (w *work) tempName() (string, error) {
	if w == nil {
		return "", unix.EROFS
	}
	return fmt.Sprintf("#%x", w.next.Add(1)), nil
}

// remove removes a name of work with all below it.
func (w *work) remove(name string) {
	err := unix.Unlinkat(w.fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) || !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return
	}
	removeDir(w.fd, name)
}

// removeDir removes a directory that holds at most whiteouts, or what an
// interrupted copy left.
func removeDir(dir int, name string) {
	if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) == nil {
		return
	}
	fd, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.EACCES) {
		_ = chmodAt(dir, name, 0o700)
		fd, err = openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.Fchmod(fd, 0o700)
	names, err := readDir(fd)
	if err != nil {
		return
	}
	for _, de := range names {
		if de.kind == unix.S_IFDIR {
			removeDir(fd, de.name)
		} else {
			_ = unix.Unlinkat(fd, de.name, 0)
		}
	}
	_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// setOpaque marks a directory in work.
func (w *work) setOpaque(name string) error {
	return unix.Lsetxattr(selfAt(w.fd, name), markOpaque, []byte("y"), 0)
}

// whiteout makes a whiteout with a temporary name in work.
func (w *work) whiteout() (string, error) {
	tmp, err := w.tempName()
	if err != nil {
		return "", err
	}
	return tmp, w.whiteoutAt(w.fd, tmp)
}

// whiteoutAt makes a whiteout at a free name: a link to the one that is there, or a
// new one where links have run out.
func (w *work) whiteoutAt(dir int, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 2 {
		if !w.white {
			err := unix.Mknodat(w.fd, whiteName, unix.S_IFCHR, 0)
			if err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
			w.white = true
		}
		err := unix.Linkat(w.fd, whiteName, dir, name, 0)
		if !errors.Is(err, unix.EMLINK) && !errors.Is(err, unix.ENOENT) {
			return err
		}
		_ = unix.Unlinkat(w.fd, whiteName, 0)
		w.white = false
	}
	return unix.Mknodat(dir, name, unix.S_IFCHR, 0)
}
