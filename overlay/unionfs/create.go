package unionfs

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// birth is the making of one object with a new name.
type birth struct {
	f           *fs
	d           *node
	name        string
	kind        uint32
	mode, umask uint32
	uid, gid    uint32
	pid         uint32
	parent      int // descriptor of the directory
	// make makes the object at a name of a directory of the upper or of work.
	make func(dir int, name string, mode uint32) error
}

func (f *fs) born(h *fuse.InHeader, name string, kind, mode, umask uint32) (*birth, error) {
	d, err := f.dirNode(h.NodeId)
	if err != nil {
		return nil, err
	}
	b := &birth{f: f, d: d, name: name, kind: kind, mode: mode & 0o7777, umask: umask, uid: h.Uid, gid: h.Gid, pid: h.Pid}
	return b, checkName(name)
}

// run makes the object and returns its node, which the kernel then knows.
func (b *birth) run(cancel <-chan struct{}, out *fuse.EntryOut) (*node, error) {
	f, d := b.f, b.d
	if f.opt.Masks.hides(d.states, b.name) {
		f.noteName(Refused, d, b.name, b.pid)
		return nil, unix.EACCES
	}
	if err := f.raise(d, cancel, b.pid, false); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, unix.ENOENT
	}
	size := int64(0)
	if b.kind == unix.S_IFDIR {
		size = dirBytes
	}
	if err := f.charge(size, 1); err != nil {
		return nil, err
	}
	var e entry
	if err := b.place(&e); err != nil {
		f.charge(-size, -1) //nolint:errcheck // gives back
		return nil, err
	}
	n := f.intern(d, b.name, &e)
	d.changed()
	f.noteName(Create, d, b.name, b.pid)
	if out != nil {
		f.entryOut(d, n, &e.st, out)
	}
	return n, nil
}

// place makes the object under its name: at once where nothing of ours is there and
// the owner is right, else aside, finished, and moved.
func (b *birth) place(e *entry) error {
	f, d := b.f, b.d
	dir, err := f.acquire(d, upperLayer)
	if err != nil {
		return err
	}
	defer d.release()
	b.parent = dir
	over := false
	if !f.onlyUpper(d) {
		if over, err = f.vacant(d, b.name); err != nil {
			return err
		}
	}
	mode := b.wanted(dir)
	if !over && !b.foreign() {
		err := b.make(dir, b.name, mode)
		if err == nil {
			return b.describe(dir, e, b.finish(dir, b.name, mode))
		}
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		if over, err = f.vacant(d, b.name); err != nil {
			return err
		}
		if !over {
			return unix.EEXIST
		}
	}
	return b.describe(dir, e, b.aside(dir, mode, over, e))
}

// vacant returns EEXIST if the view has the name, and reports whether the upper
// has a whiteout there.
func (f *fs) vacant(d *node, name string) (over bool, err error) {
	var e entry
	switch err := f.look(d, name, &e); {
	case errors.Is(err, unix.ENOENT):
		return e.whiteout, nil
	case err != nil:
		return false, err
	}
	return false, unix.EEXIST
}

// foreign reports whether the object belongs to somebody else than the server,
// which only a privileged one can make so.
func (b *birth) foreign() bool {
	return b.f.privileged && (b.uid != b.f.uid || b.gid != b.f.gid)
}

// wanted is the mode after the umask, which a default ACL replaces.
func (b *birth) wanted(dir int) uint32 {
	if b.f.acl && b.kind != unix.S_IFLNK {
		if _, err := unix.Getxattr(self(dir), "system.posix_acl_default", nil); err == nil {
			return b.mode | keepMode
		}
	}
	return b.mode &^ b.umask
}

// keepMode marks a mode that the file system computes from a default ACL.
const keepMode = 1 << 31

// finish corrects owner and mode of what make has made.
func (b *birth) finish(dir int, name string, mode uint32) error {
	if b.kind == unix.S_IFLNK {
		if b.foreign() {
			return unix.Fchownat(dir, name, int(b.uid), int(b.gid), unix.AT_SYMLINK_NOFOLLOW)
		}
		return nil
	}
	if b.foreign() {
		gid := int(b.gid)
		var st unix.Stat_t
		if err := unix.Fstat(b.parent, &st); err == nil && st.Mode&unix.S_ISGID != 0 {
			gid = int(st.Gid)
		}
		if err := unix.Fchownat(dir, name, int(b.uid), gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if mode&keepMode != 0 || mode&b.f.umask == 0 && !b.foreign() {
		return nil
	}
	if b.kind == unix.S_IFDIR { // keep what it inherits
		var st unix.Statx_t
		if err := statAt(dir, name, &st); err != nil {
			return err
		}
		mode |= uint32(st.Mode) & unix.S_ISGID
	}
	return chmodAt(dir, name, mode&0o7777)
}

// aside makes the object in work and moves it to its place, over a whiteout if
// there is one. A directory there hides what the lowers have.
func (b *birth) aside(dir int, mode uint32, over bool, e *entry) error {
	f := b.f
	tmp, err := f.work.tempName()
	if err != nil {
		return err
	}
	defer f.work.remove(tmp) // the whiteout, or what failed
	if err := b.make(f.work.fd, tmp, mode); err != nil {
		return err
	}
	if err := b.finish(f.work.fd, tmp, mode); err != nil {
		return err
	}
	if b.kind != unix.S_IFDIR {
		return unix.Renameat(f.work.fd, tmp, dir, b.name)
	}
	if !over {
		return f.moveDir(f.work.fd, tmp, dir, b.name, unix.RENAME_NOREPLACE)
	}
	if err := f.work.setOpaque(tmp); err != nil {
		return err
	}
	e.opaque = true
	return f.moveDir(f.work.fd, tmp, dir, b.name, unix.RENAME_EXCHANGE)
}

// describe fills e with what is there now.
func (b *birth) describe(dir int, e *entry, err error) error {
	if err != nil {
		return err
	}
	if err := statAt(dir, b.name, &e.st); err != nil {
		return err
	}
	e.key = keyOf(&e.st)
	return nil
}

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
	h := &handle{n: n, fd: fd, write: flags&unix.O_ACCMODE != unix.O_RDONLY}
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
