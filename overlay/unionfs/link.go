package unionfs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Link gives an object a further name. It is copied up first: the name lies in
// the upper.
func (f *fs) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return status(f.link(cancel, in, name, out))
}

func (f *fs) link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) error {
	n, err := f.node(in.Oldnodeid)
	if err != nil {
		return err
	}
	d, err := f.dirNode(in.NodeId)
	if err == nil {
		err = checkName(name)
	}
	if err != nil {
		return err
	}
	err = f.refuses(d, name)
	if n.masked.Load() {
		err = unix.EACCES
	}
	if err != nil {
		f.noteName(Refused, d, name, in.Pid)
		return err
	}
	if err := f.raise(n, cancel, in.Pid, false); err != nil {
		return err
	}
	if err := f.raise(d, cancel, in.Pid, false); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return unix.ENOENT
	}
	over, err := f.vacant(d, name)
	if err != nil {
		return err
	}
	fd, err := f.acquire(d, upperLayer)
	if err != nil {
		return err
	}
	defer d.release()
	if err := f.linkTo(n, fd, name, over); err != nil {
		return err
	}
	var st unix.Statx_t
	if err := statAt(fd, name, &st); err != nil {
		return err
	}
	f.tree.Lock()
	f.linkNode(n, link{d, name})
	n.lookups++
	n.freed = false
	f.tree.Unlock()
	d.changed()
	f.noteName(Link, d, name, in.Pid)
	f.entryOut(d, n, &st, out)
	return nil
}

// linkTo links n to a name, over a whiteout if there is one.
func (f *fs) linkTo(n *node, fd int, name string, over bool) error {
	return f.at(n, func(dir int, from string) error {
		flags := 0
		if from == "" { // a file without names
			dir, from, flags = unix.AT_FDCWD, self(dir), unix.AT_SYMLINK_FOLLOW
		}
		if !over {
			return unix.Linkat(dir, from, fd, name, flags)
		}
		tmp, err := f.work.tempName()
		if err != nil {
			return err
		}
		if err := unix.Linkat(dir, from, f.work.fd, tmp, flags); err != nil {
			return err
		}
		err = unix.Renameat(f.work.fd, tmp, fd, name)
		f.work.remove(tmp)
		return err
	})
}
