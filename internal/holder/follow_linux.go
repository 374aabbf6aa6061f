package holder

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/masks"
)

// A mount shows an inode, and most programs replace a file by rename: the mount of a
// single file would show the old one for ever. So such a mount lies on an anchor, an
// empty file of our own that has two mounts: one is in the tree, the other is outside of
// it, on the stage. What is mounted on the latter comes to the sandbox by propagation,
// also when the tree itself is sealed: it can be exchanged, and nothing else can.

// followed is one single file of the host that a session is shown as it is now.
type followed struct {
	dir    *os.File // where the file lies; what is above it does not matter any more
	name   string   // in dir
	watch  int      // the watch of dir; -1: there is none
	anchor *os.File // the anchor's mount outside of the tree; nil: the file is not shown
	shown  *os.File // the mount of the file
	id     masks.FileID
	failed bool // it could not be exchanged, and is to be tried again
}

// isFollowed reports whether step s shows a single file read-only.
func isFollowed(s masks.Step) bool { return s.Op == masks.BindRO && s.Kind == masks.KindFile }

// follow opens the source of step i. Its directory is watched from before that.
func (b *builder) follow(i int, s masks.Step) (*os.File, error) {
	dir, name := split(s.Source)
	f := &followed{name: name}
	var err error
	if f.dir, err = b.host(dir); err != nil {
		return nil, err
	}
	f.watch = b.keeper.watch(f.dir)
	src, err := b.keep(walk(f.dir, name))
	if err != nil {
		return nil, err
	}
	if err := planned(src, s); err != nil {
		return nil, err
	}
	if f.id, err = regular(src); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Source, err)
	}
	if f.shown, err = clone(src, true); err != nil {
		return nil, err
	}
	b.keeper.add(i, f)
	return f.shown, nil
}

// bindFollowed shows f at the path of step s.
func (b *builder) bindFollowed(i int, f *followed, s masks.Step) error {
	if err := setAttr(f.shown, roFlags, true); err != nil {
		return err
	}
	if err := b.mountPoint(s.Path, false); err != nil {
		return err
	}
	anchor, err := newAnchor(i)
	if err != nil {
		return fmt.Errorf("make the anchor of %s: %w", s.Path, err)
	}
	twin, err := clone(anchor, false)
	if err != nil {
		return err
	}
	defer twin.Close()
	if err := b.put(twin, s.Path); err != nil {
		return err
	}
	f.anchor = anchor
	return move(f.shown, anchor)
}

// newAnchor mounts a file of our own on itself; the mount is shared. Nobody may read the
// file: should nothing lie on it for a moment, an error is better than an empty file.
func newAnchor(i int) (*os.File, error) {
	path := fmt.Sprintf("%s/anchor-%d", stagePath, i)
	if err := unix.Mknod(path, unix.S_IFREG, 0); err != nil {
		return nil, err
	}
	at, err := openPath(path)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	anchor, err := clone(at, false)
	if err != nil {
		return nil, err
	}
	for _, do := range []func() error{
		func() error { return setAttr(anchor, roFlags|unix.MOUNT_ATTR_NOEXEC, false) },
		func() error { return move(anchor, at) },
		func() error { return mnt.SetPropagation(int(anchor.Fd()), unix.MS_SHARED, false) },
	} {
		if err := do(); err != nil {
			_ = anchor.Close()
			return nil, err
		}
	}
	return anchor, nil
}

// look exchanges what is shown if another regular file has the name by now. What is no
// regular file, or is gone, changes nothing.
func (f *followed) look() {
	f.failed = false
	src, err := walk(f.dir, f.name)
	if err != nil {
		return
	}
	defer src.Close()
	id, err := regular(src)
	if err != nil || id == f.id {
		return // f.shown keeps its inode: no other can have the number
	}
	next, err := clone(src, true)
	if err == nil {
		defer next.Close()
		err = setAttr(next, roFlags, true)
	}
	if err == nil {
		err = f.exchange(next)
	}
	if f.failed = err != nil; !f.failed {
		f.id = id
	}
}

// exchange puts next in the place of what is shown, with no moment in which anything else
// is: a mount that propagates to where one lies already goes beneath that one (Linux 4.11).
// So it comes by way of a further mount of the anchor, on which nothing lies.
func (f *followed) exchange(next *os.File) error {
	bare, err := clone(f.anchor, false)
	if err != nil {
		return err
	}
	defer bare.Close()
	if err := attachBare(bare); err != nil {
		return err
	}
	err = move(next, bare)
	if err == nil {
		err = f.hide()
	}
	if err := errors.Join(err, mnt.SetPropagation(int(bare.Fd()), unix.MS_PRIVATE, false), mnt.DetachFD(int(bare.Fd()))); err != nil {
		return err
	}
	shown, err := openPath(f.anchor.Name())
	if err != nil {
		return err
	}
	_ = f.shown.Close()
	f.shown = shown
	return nil
}

// hide takes the mount of the file away. EINVAL: the kernel has done so, since the host
// replaced the file below it meanwhile.
func (f *followed) hide() error {
	err := mnt.DetachFD(int(f.shown.Fd()))
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// attachBare mounts a detached mount of an anchor on the stage.
func attachBare(bare *os.File) error {
	at, err := openPath(coverFile)
	if err != nil {
		return err
	}
	defer at.Close()
	return move(bare, at)
}

var errNotRegular = errors.New("it is no regular file")

func regular(f *os.File) (masks.FileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return masks.FileID{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return masks.FileID{}, errNotRegular
	}
	return masks.FileID{Dev: st.Dev, Ino: st.Ino}, nil
}
