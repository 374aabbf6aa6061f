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
	if err := f.refuses(d, b.name); err != nil {
		f.noteName(Refused, d, b.name, b.pid)
		return nil, err
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
