package land

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
	"golang.org/x/sys/unix"
)

// stage is the directory in which finished objects wait to be moved into the
// project, and into which the project's own come out. It lies where a rename
// reaches the project. Copies of session files are named c1, c2, …; the object of
// step i of a plan is named i.
type stage struct {
	dir *safefs.Dir
	// linked are the first staged names of files with several, by inode of the
	// upper.
	linked map[uint64]string
}

func slotName(i int) string { return strconv.Itoa(i) }
func copyName(i int) string { return "c" + strconv.Itoa(i) }

// omit keeps a time as it is (utimensat(2)).
var omit = safefs.Time{Nsec: unix.UTIME_OMIT}

// copy copies one file of the session, with its mode, times and attributes.
func (g *stage) copy(ctx context.Context, it *Item, src *os.File, st safefs.Stat) (Digest, error) {
	if err := fault.Hit("land.stage.create"); err != nil {
		return Digest{}, err
	}
	name := copyName(it.copied)
	if err := g.dir.Remove(name); err != nil && !errors.Is(err, unix.ENOENT) { // of an earlier try
		return Digest{}, err
	}
	dst, err := g.dir.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return Digest{}, err
	}
	defer dst.Close()
	d, err := pour(ctx, dst, src, st)
	if err != nil {
		return Digest{}, err
	}
	for attr, value := range it.Xattrs {
		err := unix.Fsetxattr(int(dst.Fd()), attr, value, 0)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return Digest{}, fmt.Errorf("set %s: %w", attr, err)
		}
	}
	if err := dst.Chmod(os.FileMode(it.Mode & 0o777)); err != nil { // the sticky bit follows with the slot
		return Digest{}, err
	}
	return d, setTimes(dst, it.MTime)
}

func setTimes(f *os.File, mtime safefs.Time) error {
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: mtime.Sec, Nsec: int64(mtime.Nsec)}}
	return unix.UtimesNanoAt(int(f.Fd()), "", ts, unix.AT_EMPTY_PATH)
}

// build makes the object of each step out of the copies, and fills in what it
// became: its inodes are what recovery goes by.
func (g *stage) build(t *tree, ops []Op, items []Item) error {
	copies := make(map[string]int, len(items))
	for i := range items {
		copies[items[i].Path] = items[i].copied
	}
	g.linked = map[uint64]string{}
	for i := range ops {
		op := &ops[i]
		if op.Kind != Create && op.Kind != Replace {
			continue
		}
		own, err := ownerOf(t, op)
		if notHere(err) {
			return conflict(op, ConflictParent, "the host moved its directory during the landing")
		}
		if err != nil {
			return fmt.Errorf("look at the directory of %s: %w", Quote(op.Path), err)
		}
		if err := g.object(slotName(i), op, copies, own); err != nil {
			return fmt.Errorf("stage %s: %w", Quote(op.Path), err)
		}
	}
	return nil
}

// owner is who new entries belong to.
type owner struct {
	uid, gid uint32
	setgid   bool // new directories take the bit and the group after their parent
}

// ownerOf returns the owner for an op's entries: of what is replaced, else of the
// project, with the group of the directory where that says so.
func ownerOf(t *tree, op *Op) (owner, error) {
	dir := t.stat
	if p := parentOf(op.Path); p != "" {
		st, err := t.dir.Lstat(p)
		if err != nil {
			return owner{}, err
		}
		dir = st
	}
	own := owner{uid: t.stat.UID, gid: t.stat.GID, setgid: dir.Mode&unix.S_ISGID != 0}
	if own.setgid {
		own.gid = dir.GID
	}
	if len(op.Old) > 0 && op.Old[0].Type == overlay.File && op.New[0].Type == overlay.File {
		own.uid, own.gid = op.Old[0].UID, op.Old[0].GID
	}
	return own, nil
}

// object builds one tree at the name slot.
func (g *stage) object(slot string, op *Op, copies map[string]int, own owner) error {
	for i := range op.New {
		n := &op.New[i]
		at := slot + n.Path[len(op.Path):]
		if err := fault.Hit("land.stage.object"); err != nil {
			return err
		}
		if err := g.entry(at, n, copies[n.Path]); err != nil {
			return err
		}
		if n.Type == overlay.Symlink {
			continue
		}
		if err := g.own(at, n, own); err != nil {
			return err
		}
	}
	return g.finish(slot, op, own)
}

// entry makes one entry, but for what its children would change again.
func (g *stage) entry(at string, n *Node, number int) error {
	switch n.Type {
	case overlay.Dir:
		return g.dir.Mkdir(at, 0o700)
	case overlay.Symlink:
		if err := g.dir.Symlink(n.Target, at); err != nil {
			return err
		}
		return g.dir.Chtimes(at, omit, n.MTime)
	}
	if first, ok := g.linked[n.Ino]; ok && n.Nlink > 1 {
		return g.dir.Link(first, g.dir, at)
	}
	if n.Nlink > 1 {
		g.linked[n.Ino] = at
	}
	return g.dir.Rename(copyName(number), g.dir, at)
}

// own gives an entry to its owner, as far as this process may: what it makes is
// its own anyway.
func (g *stage) own(at string, n *Node, own owner) error {
	st, err := g.dir.Lstat(at)
	if err != nil {
		return err
	}
	if st.UID != own.uid || st.GID != own.gid {
		if err := g.dir.Chown(at, int(own.uid), int(own.gid)); err != nil {
			// Another owner than ours is a wish, and a group may be out of reach.
			_ = g.dir.Chown(at, -1, int(own.gid))
		}
	}
	if n.Type == overlay.File && st.Perm() != n.Mode {
		return g.dir.Chmod(at, n.Mode)
	}
	return nil
}

// finish sets modes and times of directories, innermost first, and looks at what
// was built.
func (g *stage) finish(slot string, op *Op, own owner) error {
	for i := len(op.New) - 1; i >= 0; i-- {
		n := &op.New[i]
		at := slot + n.Path[len(op.Path):]
		if n.Type == overlay.Dir {
			if err := g.finishDir(at, n, own); err != nil {
				return err
			}
		}
		st, err := g.dir.Lstat(at)
		if err != nil {
			return err
		}
		seen := fromStat(n.Path, st, st.Dev)
		seen.Target, seen.Digest, seen.Xattrs = n.Target, n.Digest, n.Xattrs
		*n = seen
	}
	return nil
}

func (g *stage) finishDir(at string, n *Node, own owner) error {
	for attr, value := range n.Xattrs {
		if err := g.dir.Setxattr(at, attr, value); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	mode := n.Mode & permBits
	if own.setgid {
		mode |= unix.S_ISGID
	}
	if err := g.dir.Chmod(at, mode); err != nil {
		return err
	}
	return g.dir.Chtimes(at, omit, n.MTime)
}
