package unionfs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Mknod makes a file, FIFO, socket or device. Device 0:0 is a whiteout and cannot
// be made.
func (f *fs) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	kind := in.Mode & unix.S_IFMT
	b, err := f.born(&in.InHeader, name, kind, in.Mode, in.Umask)
	if err != nil {
		return status(err)
	}
	if kind == unix.S_IFCHR && in.Rdev == 0 {
		f.noteName(Refused, b.d, name, in.Pid)
		return fuse.EPERM
	}
	dev := decodeDev(in.Rdev)
	b.make = func(dir int, name string, mode uint32) error {
		return unix.Mknodat(dir, name, kind|mode&0o7777, dev)
	}
	_, err = b.run(cancel, out)
	return status(err)
}

// Mkdir makes a directory.
func (f *fs) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	b, err := f.born(&in.InHeader, name, unix.S_IFDIR, in.Mode, in.Umask)
	if err != nil {
		return status(err)
	}
	b.make = func(dir int, name string, mode uint32) error { return unix.Mkdirat(dir, name, mode&0o7777) }
	_, err = b.run(cancel, out)
	return status(err)
}

// Symlink makes a symbolic link.
func (f *fs) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	b, err := f.born(h, name, unix.S_IFLNK, 0o777, 0)
	if err != nil {
		return status(err)
	}
	b.make = func(dir int, name string, _ uint32) error { return unix.Symlinkat(target, dir, name) }
	_, err = b.run(cancel, out)
	return status(err)
}

// Create makes a file and opens it. In ask mode the kernel is told to do both one
// after the other: a held creation would hold its directory.
func (f *fs) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if f.opt.Asker != nil {
		return fuse.ENOSYS
	}
	b, err := f.born(&in.InHeader, name, unix.S_IFREG, in.Mode, in.Umask)
	if err != nil {
		return status(err)
	}
	fd, flags := -1, int(in.Flags&openMask)
	b.make = func(dir int, name string, mode uint32) error {
		got, err := openAt(dir, name, flags|unix.O_CREAT|unix.O_EXCL, mode&0o7777)
		if err == nil {
			fd = got
		}
		return err
	}
	n, err := b.run(cancel, &out.EntryOut)
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return status(err)
	}
	f.keepOpen(n, fd, flags, &out.OpenOut)
	n.noted.Store(noteWrite)
	return fuse.OK
}

// keepOpen makes a handle of a descriptor that was opened with the file.
func (f *fs) keepOpen(n *node, fd, flags int, out *fuse.OpenOut) {
	n.opens.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	h := newHandle(n, fd, flags)
	n.handles = append(n.handles, h)
	out.Fh = f.handles.add(h)
	f.caching(h, out)
}

// Tmpfile makes a file without a name in the upper's directory.
func (f *fs) Tmpfile(cancel <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	b, err := f.born(&in.InHeader, "tmpfile", unix.S_IFREG, in.Mode, in.Umask)
	if err == nil {
		err = f.raise(b.d, cancel, in.Pid, false)
	}
	if err != nil {
		return status(err)
	}
	flags := int(in.Flags & (openMask | unix.O_EXCL))
	fd, err := b.openTmpfile(flags)
	if err != nil {
		return status(err)
	}
	var e entry
	if err := statAt(fd, "", &e.st); err != nil {
		_ = unix.Close(fd)
		return status(err)
	}
	e.key = keyOf(&e.st)
	f.tree.Lock()
	n := f.newNode(&e)
	n.lookups = 1
	n.freed = true
	f.tree.Unlock()
	f.keepOpen(n, fd, flags, &out.OpenOut)
	f.entryOut(b.d, n, &e.st, &out.EntryOut)
	return fuse.OK
}

func (b *birth) openTmpfile(flags int) (int, error) {
	f := b.f
	dir, err := f.acquire(b.d, upperLayer)
	if err != nil {
		return -1, err
	}
	defer b.d.release()
	if err := f.charge(0, 1); err != nil {
		return -1, err
	}
	mode := b.wanted(dir)
	fd, err := openAt(dir, ".", flags|unix.O_TMPFILE, mode&0o7777)
	if err != nil {
		f.charge(0, -1) //nolint:errcheck // gives back
		return -1, err
	}
	if b.foreign() {
		err = unix.Fchown(fd, int(b.uid), int(b.gid))
	}
	if err == nil && mode&keepMode == 0 {
		err = unix.Fchmod(fd, mode&0o7777)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
