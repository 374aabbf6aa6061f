package unionfs

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// SetAttr answers chmod(2), chown(2), truncate(2) and utimensat(2). The object is
// copied up first; cut to nothing, without its bytes.
func (f *fs) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, err := f.node(in.NodeId)
	if err != nil {
		return status(err)
	}
	if n.masked.Load() {
		return fuse.EACCES
	}
	size, cut := in.GetSize()
	if err := f.raise(n, cancel, in.Pid, cut && size == 0 && n.kind == unix.S_IFREG); err != nil {
		return status(err)
	}
	f.note(Attributes, n, in.Pid)
	if cut {
		if err := f.truncate(n, in, int64(size)); err != nil {
			return status(err)
		}
	}
	if in.Valid&^(fuse.FATTR_SIZE|fuse.FATTR_FH|fuse.FATTR_LOCKOWNER|fuse.FATTR_KILL_SUIDGID) != 0 {
		if err := f.withFDOf(n, func(fd int) error { return f.change(fd, n, in) }); err != nil {
			return status(err)
		}
	}
	return status(f.attrOut(n, out))
}

// withFDOf is withFD for directories too.
func (f *fs) withFDOf(n *node, use func(fd int) error) error {
	if n.dir == nil {
		return f.withFD(n, use)
	}
	fd, err := f.acquire(n, upperLayer)
	if errors.Is(err, unix.ENOENT) {
		f.tree.RLock()
		pin := n.pin
		f.tree.RUnlock()
		if pin < 0 {
			return unix.ESTALE
		}
		return use(pin)
	}
	if err != nil {
		return err
	}
	defer n.release()
	return use(fd)
}

// truncate uses the open file where the caller has one: its right to write was
// checked when it was opened.
func (f *fs) truncate(n *node, in *fuse.SetAttrIn, size int64) error {
	if n.kind != unix.S_IFREG {
		return unix.EINVAL
	}
	kill := in.Valid&fuse.FATTR_KILL_SUIDGID != 0
	if fh, ok := in.GetFh(); ok {
		h, err := f.writeHandle(fh)
		if err != nil {
			return err
		}
		return f.truncateFD(n, h.fd, size, kill)
	}
	n.mu.RLock()
	fd, err := f.openLocked(n, unix.O_WRONLY)
	n.mu.RUnlock()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f.truncateFD(n, fd, size, kill)
}

func (f *fs) truncateFD(n *node, fd int, size int64, kill bool) error {
	err := unix.Ftruncate(fd, size)
	if err == nil && kill {
		killPriv(fd)
	}
	f.recharge(n, fd)
	return err
}

// change sets owner, mode and times of what the O_PATH descriptor fd names.
func (f *fs) change(fd int, n *node, in *fuse.SetAttrIn) error {
	uid, hasUID := in.GetUID()
	gid, hasGID := in.GetGID()
	if hasUID || hasGID {
		if err := f.chown(fd, int(int32(uid)), int(int32(gid))); err != nil {
			return err
		}
	}
	if mode, ok := in.GetMode(); ok {
		if n.kind == unix.S_IFLNK {
			return unix.EOPNOTSUPP
		}
		lock := f.modesOf(n.kind)
		lock.Lock()
		err := unix.Chmod(self(fd), mode)
		lock.Unlock()
		if err != nil {
			return err
		}
	}
	const some = fuse.FATTR_ATIME | fuse.FATTR_MTIME | fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW
	if in.Valid&some == 0 {
		return nil
	}
	ts := []unix.Timespec{
		timeOf(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec),
		timeOf(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec),
	}
	return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
}

// chown sets the owner. To set what the view shows is no change.
func (f *fs) chown(fd, uid, gid int) error {
	err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EPERM) && f.oneOwner && gid == int(f.gid) && (uid == -1 || uid == int(f.uid)) {
		return nil
	}
	return err
}

func timeOf(valid, set, now uint32, sec uint64, nsec uint32) unix.Timespec {
	switch {
	case valid&now != 0:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case valid&set != 0:
		return unix.Timespec{Sec: int64(sec), Nsec: int64(nsec)}
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}
