package unionfs

import (
	"errors"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// timeout is how long the kernel may keep an answer.
type timeout = time.Duration

// statNode describes the object of n.
func (f *fs) statNode(n *node, st *unix.Statx_t) error {
	if n.dir != nil {
		return f.statDir(n, st)
	}
	return f.at(n, func(fd int, name string) error {
		if err := statAt(fd, name, st); err != nil {
			return err
		}
		return f.same(n, st)
	})
}

// same returns ESTALE unless st describes the object of n.
func (f *fs) same(n *node, st *unix.Statx_t) error {
	k := keyOf(st)
	f.tree.RLock()
	defer f.tree.RUnlock()
	want := n.low
	if n.inUpper.Load() {
		want = n.up
	}
	if k != want {
		return unix.ESTALE
	}
	return nil
}

func (f *fs) statDir(n *node, st *unix.Statx_t) error {
	layer := f.topLayer(n)
	fd, err := f.acquire(n, layer)
	if err == nil {
		defer n.release()
		return statAt(fd, "", st)
	}
	f.tree.RLock()
	var l link
	if len(n.links) > 0 {
		l = n.links[0]
	}
	pin := n.pin
	f.tree.RUnlock()
	switch {
	case errors.Is(err, unix.EXDEV) && l.parent != nil: // a mount in the lower
		fd, err := f.acquire(l.parent, layer)
		if err != nil {
			return err
		}
		defer l.parent.release()
		return statAt(fd, l.name, st)
	case pin >= 0:
		return statAt(pin, "", st)
	case errors.Is(err, unix.ENOENT):
		return unix.ESTALE
	}
	return err
}

// topLayer is the index of the topmost layer that has a part of a directory.
func (f *fs) topLayer(n *node) int {
	if n.inUpper.Load() {
		return upperLayer
	}
	f.tree.RLock()
	defer f.tree.RUnlock()
	if n.lower == 0 { // a mountpoint in a lower
		return n.layer + 1
	}
	for i := range f.lowers {
		if n.lower&(1<<i) != 0 {
			return i + 1
		}
	}
	return 1
}

// fill gives the kernel the attributes of n, of which st describes the object.
func (f *fs) fill(n *node, st *unix.Statx_t, a *fuse.Attr) {
	a.Ino = n.ino
	a.Size, a.Blocks, a.Blksize = st.Size, st.Blocks, st.Blksize
	if kindOf(st) == unix.S_IFREG {
		a.Blksize = max(a.Blksize, ioSize)
	}
	a.Atime, a.Atimensec = uint64(st.Atime.Sec), st.Atime.Nsec
	a.Mtime, a.Mtimensec = uint64(st.Mtime.Sec), st.Mtime.Nsec
	a.Ctime, a.Ctimensec = uint64(st.Ctime.Sec), st.Ctime.Nsec
	a.Mode = uint32(st.Mode)
	a.Uid, a.Gid = f.shownOwner(st)
	a.Rdev = encodeDev(st.Rdev_major, st.Rdev_minor)
	a.Nlink = f.links(n, st.Nlink)
}

// links is how many names the view has of what has count in its layer.
func (f *fs) links(n *node, count uint32) uint32 {
	f.tree.RLock()
	defer f.tree.RUnlock()
	if n.dir != nil {
		switch {
		case n.id != rootID && len(n.links) == 0:
			return 0
		case n.lower != 0 && !n.opaque:
			return 1 // as the kernel: the directories in it are not counted
		}
		return count
	}
	if n.inUpper.Load() {
		return uint32(max(int32(count)+n.extra, 0))
	}
	return uint32(max(int32(count)-n.lost, 0))
}

// shownOwner hides owners and groups that the user namespace of the view does not
// have: the kernel would let nobody remove or write to a file of theirs. What may be
// done with it is then decided by the layer, with the rights of the server.
func (f *fs) shownOwner(st *unix.Statx_t) (uid, gid uint32) {
	if f.oneOwner {
		return f.uid, f.gid
	}
	return st.Uid, st.Gid
}

// GetAttr answers stat(2).
func (f *fs) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, err := f.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	return status(f.attrOut(n, out))
}

func (f *fs) attrOut(n *node, out *fuse.AttrOut) error {
	var st unix.Statx_t
	if err := f.statNode(n, &st); err != nil {
		return err
	}
	f.fill(n, &st, &out.Attr)
	out.SetTimeout(f.attrValid(n, &st, f.anyParent(n)))
	return nil
}

func (f *fs) anyParent(n *node) *node {
	f.tree.RLock()
	defer f.tree.RUnlock()
	if len(n.links) == 0 {
		return nil
	}
	return n.links[0].parent
}

// Statx answers statx(2) where it asks for the time of birth.
func (f *fs) Statx(_ <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	n, err := f.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	var st unix.Statx_t
	if err := f.statNode(n, &st); err != nil {
		return status(err)
	}
	out.FromStatx(&st)
	out.Ino, out.Nlink = n.ino, f.links(n, st.Nlink)
	out.Uid, out.Gid = f.shownOwner(&st)
	f.tree.RLock()
	if b := n.low.btime; b != 0 {
		out.Btime = fuse.SxTime{Sec: uint64(b / 1e9), Nsec: uint32(b % 1e9)}
	}
	f.tree.RUnlock()
	out.SetTimeout(f.attrValid(n, &st, f.anyParent(n)))
	return fuse.OK
}

// StatFs answers for the upper, cut to the bounds.
func (f *fs) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	var st unix.Statfs_t
	fd, err := f.acquire(f.root, f.topLayer(f.root))
	if err != nil {
		return status(err)
	}
	defer f.root.release()
	if err := unix.Fstatfs(fd, &st); err != nil {
		return status(err)
	}
	out.Blocks, out.Bfree, out.Bavail = st.Blocks, st.Bfree, st.Bavail
	out.Files, out.Ffree = st.Files, st.Ffree
	out.Bsize, out.Frsize = uint32(st.Bsize), uint32(st.Frsize)
	out.NameLen = maxName
	f.cutStatfs(out)
	return fuse.OK
}
