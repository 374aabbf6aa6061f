package holder

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
)

// Where the tree is put together. /tmp is there on every Linux, and bubblewrap needs it.
const (
	stagePath = "/tmp"
	rootPath  = stagePath + "/root"
	guestPath = "/run/sbxbin/sbxd"
)

// Sizes of the small file systems of every session, in bytes and inodes. The stage holds
// directories, links, a few generated files, and sometimes a copy of this program.
const (
	stageSize   = 64 << 20
	stageInodes = 1 << 16
	runSize     = 16 << 20
	runInodes   = 1 << 14
	tmpInodes   = 1 << 20
)

// roFlags are on everything that the session may only read; rwFlags on the rest.
const (
	roFlags = unix.MOUNT_ATTR_RDONLY | rwFlags
	rwFlags = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// framer puts one frame together.
type framer struct {
	tree
	frame    Frame
	program  string   // bubblewrap by descriptor: what is below /tmp on the host is covered
	self     *os.File // this program
	selfTree *os.File // a clone of it; nil when its name is another's by now
}

// stage covers /tmp of this namespace with a small file system: root/, where the tree
// grows, and two empty objects that every mask shows.
func (b *framer) stage() error {
	fs, err := tmpfs(stageSize, stageInodes, 0o755)
	if err != nil {
		return err
	}
	defer fs.Close()
	if err := setAttr(fs, rwFlags, false); err != nil {
		return err
	}
	if err := mnt.Move(int(fs.Fd()), unix.AT_FDCWD, stagePath); err != nil {
		return err
	}
	if err := unix.Mkdir(rootPath, 0o755); err != nil {
		return fmt.Errorf("make the root of the session: %w", err)
	}
	for _, c := range []struct {
		path string
		dir  bool
	}{{coverFile, false}, {coverDir, true}} {
		if err := prototype(c.path, c.dir); err != nil {
			return fmt.Errorf("make the empty object of masks: %w", err)
		}
	}
	return b.openRoot()
}

// openRoot makes the root a mount of its own, which is to be shared, and opens it.
func (b *framer) openRoot() error {
	at, err := openPath(rootPath)
	if err != nil {
		return err
	}
	defer at.Close()
	tree, err := clone(at, false)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := move(tree, at); err != nil {
		return err
	}
	b.root, err = b.keep(openPath(rootPath))
	return err
}

// prototype makes an empty object outside the tree and mounts it on itself, read-only:
// clones of that mount are the masks, already with their flags.
func prototype(path string, dir bool) error {
	if dir {
		if err := unix.Mkdir(path, 0o555); err != nil {
			return err
		}
	} else if err := unix.Mknod(path, unix.S_IFREG|0o444, 0); err != nil {
		return err
	}
	at, err := openPath(path)
	if err != nil {
		return err
	}
	defer at.Close()
	proto, err := clone(at, false)
	if err != nil {
		return err
	}
	defer proto.Close()
	if err := setAttr(proto, roFlags|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
		return err
	}
	return move(proto, at)
}

// scratch mounts the fresh file systems of the session.
func (b *framer) scratch() error {
	for _, s := range []struct {
		path         string
		size, inodes int64
		mode         uint32
	}{
		{"/tmp", b.frame.TmpSize, tmpInodes, 0o1777},
		{"/var/tmp", b.frame.TmpSize, tmpInodes, 0o1777},
		{runPath, runSize, runInodes, 0o755},
		{fmt.Sprintf("/run/user/%d", b.frame.UID), runSize, runInodes, 0o700},
	} {
		if err := b.mkdirAll(s.path); err != nil {
			return err
		}
		if err := b.tmpfs(s.path, s.size, s.inodes, s.mode); err != nil {
			return fmt.Errorf("mount a fresh %s: %w", s.path, err)
		}
	}
	return nil
}

func (b *framer) tmpfs(path string, size, inodes int64, mode uint32) error {
	fs, err := tmpfs(size, inodes, mode)
	if err != nil {
		return err
	}
	defer fs.Close()
	if err := setAttr(fs, rwFlags, false); err != nil {
		return err
	}
	return b.put(fs, path)
}

func (b *framer) openPrograms() error {
	exe, err := b.keep(os.OpenFile(b.frame.Bwrap.Program, unix.O_PATH|unix.O_CLOEXEC, 0))
	if err != nil {
		return fmt.Errorf("open bubblewrap: %w", err)
	}
	b.program = mnt.Name(int(exe.Fd()))
	return b.openSelf()
}

// openSelf opens this very program for the guest. Its descriptor in /proc belongs to the
// shim's mount namespace, so it is looked up again by name; when another file has that
// name by now (an upgrade), the program is copied instead.
func (b *framer) openSelf() error {
	self, err := b.keep(os.Open("/proc/self/exe"))
	if err != nil {
		return fmt.Errorf("open the guest's program: %w", err)
	}
	b.self = self
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("name the guest's program: %w", err)
	}
	f, err := openPath(name)
	if err != nil {
		return nil // removed, or reached by a name that is too long: it is copied
	}
	defer f.Close()
	if same, err := sameFile(f, self); err != nil || !same {
		return err
	}
	b.selfTree, err = b.keep(clone(f, false))
	return err
}

func sameFile(a, b *os.File) (bool, error) {
	x, err := a.Stat()
	if err != nil {
		return false, err
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y), err
}

// putGuest shows this program as the guest and closes /run, so that nothing can be put
// in its place.
func (b *framer) putGuest() error {
	if err := b.makeFile(guestPath); err != nil {
		return err
	}
	tree := b.selfTree
	if tree == nil {
		var err error
		if tree, err = b.keep(staged("guest", 0o555, b.self)); err != nil {
			return fmt.Errorf("copy the guest's program: %w", err)
		}
	}
	if err := setAttr(tree, roFlags, false); err != nil {
		return err
	}
	if err := b.put(tree, guestPath); err != nil {
		return err
	}
	return b.attr(runPath, unix.MOUNT_ATTR_RDONLY, 0)
}

// share makes the tree a source of propagation: what is mounted in it later is mounted
// in bubblewrap's copy of it as well. That copy is a slave; nothing ever comes back.
func (b *framer) share() error {
	return mnt.SetPropagation(int(b.root.Fd()), unix.MS_SHARED, true)
}

// staged writes a file beside the tree and returns a detached clone of it.
func staged(name string, mode os.FileMode, content io.Reader) (*os.File, error) {
	path := stagePath + "/" + name
	w, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(w, content); err != nil {
		_ = w.Close()
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	f, err := openPath(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return clone(f, false)
}
