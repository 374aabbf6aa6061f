package unionfs

import (
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// settleTries bounds how often an operation looks again for an object whose name
// is being changed. One turn takes microseconds.
const settleTries = 1000

// at calls use with a directory and a name by which the object of a node that is
// no directory can be reached. An object without names is reached by a descriptor;
// the name is "" then.
func (f *fs) at(n *node, use func(fd int, name string) error) error {
	err := f.atName(n, use)
	if !errors.Is(err, unix.ESTALE) || f.hasName(n) {
		return err
	}
	if ok, err := n.useHandle(func(fd int) error { return use(fd, "") }); ok {
		return err
	}
	f.tree.RLock()
	pin := n.pin
	f.tree.RUnlock()
	if pin < 0 {
		return unix.ESTALE
	}
	return use(pin, "")
}

func (f *fs) hasName(n *node) bool {
	f.tree.RLock()
	defer f.tree.RUnlock()
	return len(n.links) > 0
}

// atName is at by names alone, for those that hold n.mu. ESTALE: there is none.
func (f *fs) atName(n *node, use func(fd int, name string) error) error {
	for try := 0; ; try++ {
		seq := n.moving.Load()
		err := f.atOnce(n, use)
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) || try == settleTries {
			return err
		}
		if seq&1 == 0 && n.moving.Load() == seq {
			if errors.Is(err, unix.ENOENT) {
				return unix.ESTALE // the kernel looks the name up again
			}
			return err
		}
		runtime.Gosched()
	}
}

func (f *fs) atOnce(n *node, use func(fd int, name string) error) error {
	f.tree.RLock()
	links, layer := n.links, n.layer+1
	f.tree.RUnlock()
	if n.inUpper.Load() {
		layer = upperLayer
	}
	err := error(unix.ESTALE)
	for i := len(links) - 1; i >= 0; i-- { // the host may have removed some
		if err = f.atLink(links[i], layer, use); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) {
			return err
		}
	}
	return err
}

func (f *fs) atLink(l link, layer int, use func(fd int, name string) error) error {
	fd, err := f.acquire(l.parent, layer)
	if err != nil {
		return err
	}
	defer l.parent.release()
	err = use(fd, l.name)
	if layer == upperLayer && errors.Is(err, unix.EACCES) {
		return f.opened(fd, err, func() error { return use(fd, l.name) })
	}
	return err
}

// opened repeats what failed with err for lack of rights to a directory of the upper,
// with the rights of its owner given to it for a moment. The kernel has found that the
// caller may: it is the holder, or changes a file in a read-only directory. The server
// has no more rights than the owner.
func (f *fs) opened(fd int, err error, use func() error) error {
	var st unix.Statx_t
	if statAt(fd, "", &st) != nil {
		return err
	}
	lock := f.modesOf(kindOf(&st))
	lock.Lock()
	defer lock.Unlock()
	if statAt(fd, "", &st) != nil {
		return err
	}
	mode := uint32(st.Mode) & 0o7777
	if mode&0o700 == 0o700 {
		return use() // somebody changed it meanwhile
	}
	if unix.Chmod(self(fd), mode|0o700) != nil {
		return err
	}
	err = use()
	if e := unix.Chmod(self(fd), mode); err == nil {
		err = e
	}
	return err
}

// modesOf is the lock of the modes of objects of a kind.
func (f *fs) modesOf(kind uint32) *sync.Mutex {
	if kind == unix.S_IFDIR {
		return &f.dirModes
	}
	return &f.modes
}

// useHandle calls use with an open descriptor of the file, if there is one.
func (n *node) useHandle(use func(fd int) error) (bool, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if len(n.handles) == 0 {
		return false, nil
	}
	return true, use(n.handles[0].fd)
}
