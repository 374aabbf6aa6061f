package unionfs

import (
	"errors"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// handle is one open file. Its descriptor number is constant; a copy-up replaces
// what it has open.
type handle struct {
	n       *node
	fd      int
	write   bool
	both    bool // opened for reading and writing
	passing bool // through the kernel
}

func newHandle(n *node, fd, flags int) *handle {
	mode := flags & unix.O_ACCMODE
	return &handle{n: n, fd: fd, write: mode != unix.O_RDONLY, both: mode == unix.O_RDWR}
}

// handles finds open files by the number that the kernel knows.
type handles struct {
	mu   sync.RWMutex // guards the fields below
	all  []*handle    // number-1
	free []uint64
}

func (t *handles) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.free) - 1; last >= 0 {
		fh := t.free[last]
		t.free = t.free[:last]
		t.all[fh-1] = h
		return fh
	}
	t.all = append(t.all, h)
	return uint64(len(t.all))
}

func (t *handles) find(fh uint64) (*handle, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if fh == 0 || fh > uint64(len(t.all)) || t.all[fh-1] == nil {
		return nil, unix.EBADF
	}
	return t.all[fh-1], nil
}

func (t *handles) remove(fh uint64) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fh == 0 || fh > uint64(len(t.all)) || t.all[fh-1] == nil {
		return nil
	}
	h := t.all[fh-1]
	t.all[fh-1] = nil
	t.free = append(t.free, fh)
	return h
}

func (t *handles) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.all) - len(t.free)
}

// openMask are the flags of open(2) that reach a layer. Offsets come with each
// write, so O_APPEND is the kernel's affair.
const openMask = unix.O_ACCMODE | unix.O_TRUNC | unix.O_NOATIME

// Open opens a regular file; for writing, it is copied up first.
func (f *fs) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, err := f.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	write := in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0
	if err := f.mayOpen(n, cancel, &in.InHeader, write); err != nil {
		return status(err)
	}
	if write {
		if err := f.raise(n, cancel, in.Pid, in.Flags&unix.O_TRUNC != 0); err != nil {
			return status(err)
		}
	}
	return status(f.openHandle(n, int(in.Flags&openMask), in.Mode&fuse.OPEN_KILL_SUIDGID != 0, out))
}

// mayOpen asks whoever must be asked, and takes notes.
func (f *fs) mayOpen(n *node, cancel <-chan struct{}, h *fuse.InHeader, write bool) error {
	if n.masked.Load() {
		f.note(Refused, n, h.Pid)
		return unix.EACCES
	}
	if f.opt.Asker != nil {
		if err := f.ask(n, cancel, h.Pid, write); err != nil {
			return err
		}
	}
	f.noteOpen(n, h.Pid, write)
	return nil
}

// openHandle opens the file of n and tells the kernel how to cache it.
func (f *fs) openHandle(n *node, flags int, kill bool, out *fuse.OpenOut) error {
	n.opens.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		flags &^= unix.O_NOATIME
	}
	fd, err := f.openLocked(n, flags)
	if err != nil {
		n.opens.Add(-1)
		return err
	}
	if flags&unix.O_TRUNC != 0 {
		f.recharge(n, fd)
		if kill {
			killPriv(fd)
		}
	}
	h := newHandle(n, fd, flags)
	n.handles = append(n.handles, h)
	out.Fh = f.handles.add(h)
	f.caching(h, out)
	return nil
}

// openLocked opens the file of n by a name, or again by what has it open; n.mu is
// held.
func (f *fs) openLocked(n *node, flags int) (int, error) {
	fd, err := f.openName(n, flags)
	if !errors.Is(err, unix.ESTALE) || f.hasName(n) {
		return fd, err
	}
	if len(n.handles) > 0 {
		return reopen(n.handles[0].fd, flags)
	}
	f.tree.RLock()
	pin := n.pin
	f.tree.RUnlock()
	if pin >= 0 {
		return reopen(pin, flags)
	}
	return -1, unix.ESTALE
}

// openName opens the regular file of n by a name.
func (f *fs) openName(n *node, flags int) (int, error) {
	got := -1
	err := f.atName(n, func(dir int, name string) error {
		fd, err := openAt(dir, name, flags&^unix.O_TRUNC, 0)
		if errors.Is(err, unix.EACCES) && n.inUpper.Load() {
			fd, err = f.forceOpen(dir, name, flags&^unix.O_TRUNC)
		}
		if err != nil {
			return err
		}
		var st unix.Statx_t
		if err = statAt(fd, "", &st); err == nil {
			err = f.same(n, &st)
		}
		if err == nil && flags&unix.O_TRUNC != 0 {
			err = unix.Truncate(self(fd), 0) // also where it is open for reading
		}
		if err != nil {
			_ = unix.Close(fd)
			return err
		}
		got = fd
		return nil
	})
	return got, err
}

// forceOpen opens a file of the upper that its own mode forbids us to open. The kernel
// has found that the caller may: it is the holder, or has just made the file.
func (f *fs) forceOpen(dir int, name string, flags int) (int, error) {
	f.modes.Lock()
	defer f.modes.Unlock()
	path, err := openAt(dir, name, unix.O_PATH, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(path)
	var st unix.Statx_t
	if err := statAt(path, "", &st); err != nil || kindOf(&st) != unix.S_IFREG {
		return -1, unix.EACCES
	}
	mode := uint32(st.Mode) & 0o7777
	if unix.Chmod(self(path), mode|0o600) != nil {
		return -1, unix.EACCES
	}
	fd, err := reopen(path, flags)
	if e := unix.Chmod(self(path), mode); err == nil && e != nil {
		_ = unix.Close(fd)
		return -1, e
	}
	return fd, err
}

// Release closes a file.
func (f *fs) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	h := f.handles.remove(in.Fh)
	if h == nil {
		return
	}
	n := h.n
	n.mu.Lock()
	f.endPass(h)
	for i, have := range n.handles {
		if have == h {
			n.handles[i] = n.handles[len(n.handles)-1]
			n.handles[len(n.handles)-1] = nil
			n.handles = n.handles[:len(n.handles)-1]
			break
		}
	}
	if len(n.handles) == 0 && h.write {
		f.recharge(n, h.fd)
	}
	n.mu.Unlock()
	f.keepReachable(n, h.fd)
	_ = unix.Close(h.fd)
	if n.opens.Add(-1) == 0 {
		f.tree.RLock()
		idle := n.lookups == 0
		f.tree.RUnlock()
		if idle {
			f.drop(n)
		}
	}
}

// keepReachable pins a file without names whose last descriptor goes while the
// kernel still knows it.
func (f *fs) keepReachable(n *node, fd int) {
	f.tree.RLock()
	need := len(n.links) == 0 && n.lookups > 0 && n.pin < 0
	f.tree.RUnlock()
	if !need {
		return
	}
	pin, err := reopen(fd, unix.O_PATH)
	if err != nil {
		return
	}
	f.tree.Lock()
	if n.pin < 0 && !n.gone {
		n.pin, pin = pin, -1
	}
	f.tree.Unlock()
	if pin >= 0 {
		_ = unix.Close(pin)
	}
}

// Readlink answers readlink(2).
func (f *fs) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	n, err := f.node(h.NodeId)
	if err != nil {
		return nil, status(err)
	}
	target, err := f.readLink(n)
	return target, status(err)
}

func (f *fs) readLink(n *node) ([]byte, error) {
	buf := make([]byte, 4096)
	size := 0
	err := f.at(n, func(dir int, name string) error {
		var err error
		size, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	return buf[:max(size, 0)], err
}
