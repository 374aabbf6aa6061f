package unionfs

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Unlink removes a name.
func (f *fs) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return status(f.remove(cancel, h, name, false))
}

// Rmdir removes a directory.
func (f *fs) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return status(f.remove(cancel, h, name, true))
}

func (f *fs) remove(cancel <-chan struct{}, h *fuse.InHeader, name string, dir bool) error {
	d, err := f.dirNode(h.NodeId)
	if err == nil {
		err = checkName(name)
	}
	if err != nil {
		return err
	}
	if err := f.takes(d, name); err != nil {
		return err
	}
	if err := f.raise(d, cancel, h.Pid, false); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var e entry
	if err := f.look(d, name, &e); err != nil {
		return err
	}
	if isDir := kindOf(&e.st) == unix.S_IFDIR; isDir != dir {
		if dir {
			return unix.ENOTDIR
		}
		return unix.EISDIR
	}
	n := f.child(&e)
	if n != nil {
		n.moving.Add(1)
		defer n.moving.Add(1)
	}
	if dir {
		err = f.removeDirEntry(d, name, n, &e)
	} else {
		err = f.removeEntry(d, name, n, &e)
	}
	if err != nil {
		return err
	}
	d.changed()
	f.noteName(Remove, d, name, h.Pid)
	return nil
}

// removeEntry removes what is no directory; d.mu is held.
func (f *fs) removeEntry(d *node, name string, n *node, e *entry) error {
	there, _, err := f.below(d, name)
	if err != nil {
		return err
	}
	fd, err := f.acquire(d, upperLayer)
	if err != nil {
		return err
	}
	defer d.release()
	pin := -1
	if n != nil {
		pin = f.pinFor(n, link{d, name}, e, fd)
	}
	if e.layer > 0 {
		err = f.work.whiteoutAt(fd, name)
	} else if there {
		err = f.coverWith(fd, name)
	} else {
		err = unix.Unlinkat(fd, name, 0)
	}
	if err != nil {
		if pin >= 0 {
			_ = unix.Close(pin)
		}
		return err
	}
	if n == nil {
		f.refundEntry(e)
		return nil
	}
	f.lose(n, link{d, name}, e, pin)
	return nil
}

// coverWith replaces a file of the upper by a whiteout in one step.
func (f *fs) coverWith(fd int, name string) error {
	tmp, err := f.work.whiteout()
	if err != nil {
		return err
	}
	err = unix.Renameat(f.work.fd, tmp, fd, name)
	f.work.remove(tmp) // where both are one inode, rename does nothing
	return err
}

// pinFor opens what is about to lose its last name, so that whoever still has it
// can be answered.
func (f *fs) pinFor(n *node, l link, e *entry, upper int) int {
	f.tree.RLock()
	last := len(n.links) == 0 || len(n.links) == 1 && n.links[0] == l
	last = last && n.pin < 0
	f.tree.RUnlock()
	if !last {
		return -1
	}
	fd, held := upper, false
	if e.layer > 0 {
		var err error
		if fd, err = f.acquire(l.parent, e.layer); err != nil {
			return -1
		}
		held = true
	}
	pin, err := openAt(fd, l.name, unix.O_PATH, 0)
	if held {
		l.parent.release()
	}
	if err != nil {
		return -1
	}
	return pin
}

// lose takes a name from a node after it went from disk.
func (f *fs) lose(n *node, l link, e *entry, pin int) {
	f.tree.Lock()
	defer f.tree.Unlock()
	f.unlinkNode(n, l)
	if e.layer > 0 {
		n.lost++
	} else if e.st.Nlink <= 1 || n.dir != nil {
		n.freed = true
		if n.dir == nil && f.byKey[n.low] == n {
			delete(f.byKey, n.low) // names that only the lower has are the lower's file again
		}
	}
	if pin < 0 {
		return
	}
	if len(n.links) == 0 && n.pin < 0 && !n.gone {
		n.pin = pin
		return
	}
	_ = unix.Close(pin)
}

// removeDirEntry removes a directory that is empty in the view; d.mu is held.
func (f *fs) removeDirEntry(d *node, name string, n *node, e *entry) error {
	if n == nil { // the kernel has looked it up, so this is a race with the host
		n = f.intern(d, name, e)
		defer f.Forget(n.id, 1)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := f.isEmpty(n); err != nil {
		return err
	}
	there, _, err := f.below(d, name)
	if err != nil {
		return err
	}
	fd, err := f.acquire(d, upperLayer)
	if err != nil {
		return err
	}
	defer d.release()
	pin := f.pinFor(n, link{d, name}, e, fd)
	switch {
	case e.layer > 0:
		err = f.work.whiteoutAt(fd, name)
	case there:
		err = f.swapOut(fd, name, true)
	default:
		if err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR); errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			err = f.swapOut(fd, name, false) // whiteouts are in it
		}
	}
	if err != nil {
		if pin >= 0 {
			_ = unix.Close(pin)
		}
		return err
	}
	n.dead = true
	f.lose(n, link{d, name}, e, pin)
	return nil
}

// swapOut moves a directory of the upper to work, where it is removed with the
// whiteouts in it. With cover a whiteout takes its place in the same step.
func (f *fs) swapOut(fd int, name string, cover bool) error {
	if !cover {
		tmp, err := f.work.tempName()
		if err != nil {
			return err
		}
		if err := f.moveDir(fd, name, f.work.fd, tmp, 0); err != nil {
			return err
		}
		f.work.remove(tmp)
		return nil
	}
	tmp, err := f.work.whiteout()
	if err != nil {
		return err
	}
	defer f.work.remove(tmp)
	return f.moveDir(fd, name, f.work.fd, tmp, unix.RENAME_EXCHANGE)
}

// moveDir renames a directory of the upper. To change its parent its owner must
// be able to write to it, so a read-only one is writable meanwhile.
func (f *fs) moveDir(from int, name string, to int, as string, flags uint) error {
	err := unix.Renameat2(from, name, to, as, flags)
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	var st unix.Statx_t
	if e := statAt(from, name, &st); e != nil || kindOf(&st) != unix.S_IFDIR {
		return err
	}
	if e := chmodAt(from, name, uint32(st.Mode)&0o7777|0o700); e != nil {
		return err
	}
	if err = unix.Renameat2(from, name, to, as, flags); err == nil {
		return chmodAt(to, as, uint32(st.Mode)&0o7777)
	}
	_ = chmodAt(from, name, uint32(st.Mode)&0o7777)
	return err
}

// isEmpty returns ENOTEMPTY if the view shows something in n, or a mask hides
// something there.
func (f *fs) isEmpty(n *node) error {
	l, err := f.readMerged(n)
	if err != nil {
		return err
	}
	if len(l.names) > 0 || l.hidden {
		return unix.ENOTEMPTY
	}
	return nil
}
