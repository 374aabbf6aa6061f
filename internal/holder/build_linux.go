package holder

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/mnt"
)

// Where the tree is put together. /tmp is there on every Linux, and what lies below it
// on the host was opened before it is covered.
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

// builder puts one root together. Its fields are open descriptors; close lets go.
type builder struct {
	spec     Spec
	root     *os.File // rootPath
	program  string   // bubblewrap by descriptor: what is below /tmp on the host is covered
	views    []layers // as spec.Views
	sources  map[int]*os.File
	nested   []*os.File // as spec.Nested; nil where hidden
	self     *os.File   // this program
	selfTree *os.File   // a clone of it; nil when its name is another's by now
	coverF   *os.File   // attached prototypes of the two covers, read-only
	coverD   *os.File
	pinned   map[string]bool // by pinMovable
	warnings []string
	opened   []*os.File
}

// layers are the open directories of a view.
type layers struct{ lower, pins, upper, work *os.File }

func (b *builder) build() error {
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"open", b.openSources},
		{"stage", b.stage},
		{"base", b.base},
		{"scratch", b.scratch},
		{"views", b.mountViews},
		{"nested", b.mountNested},
		{"masks", b.applySteps},
		{"finish", b.finish},
	} {
		if err := fault.Hit("holder." + s.name); err != nil {
			return &stepError{s.name, err}
		}
		if err := s.do(); err != nil {
			return &stepError{s.name, err}
		}
	}
	return nil
}

func (b *builder) close() {
	for _, f := range b.opened {
		_ = f.Close()
	}
}

// keep remembers a descriptor for close.
func (b *builder) keep(f *os.File, err error) (*os.File, error) {
	if f != nil {
		b.opened = append(b.opened, f)
	}
	return f, err
}

func (b *builder) warn(format string, a ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, a...))
}

// stage covers /tmp of this namespace with a small file system: root/, where the tree
// grows, and two empty objects that every mask shows.
func (b *builder) stage() error {
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
	if b.root, err = b.keep(openPath(rootPath)); err != nil {
		return err
	}
	if b.coverF, err = b.prototype("empty-file", 0o444, false); err != nil {
		return err
	}
	b.coverD, err = b.prototype("empty-directory", 0o555, true)
	return err
}

// prototype makes an empty object outside the tree and mounts it on itself, read-only:
// clones of that mount are the masks, already with their flags.
func (b *builder) prototype(name string, mode uint32, dir bool) (*os.File, error) {
	path := stagePath + "/" + name
	if dir {
		if err := unix.Mkdir(path, mode); err != nil {
			return nil, fmt.Errorf("make the empty directory of masks: %w", err)
		}
	} else {
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode)
		if err != nil {
			return nil, fmt.Errorf("make the empty file of masks: %w", err)
		}
		_ = unix.Close(fd)
	}
	at, err := openPath(path)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	proto, err := b.keep(clone(at, false))
	if err != nil {
		return nil, err
	}
	if err := setAttr(proto, roFlags|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
		return nil, err
	}
	return proto, move(proto, at)
}

// put mounts tree (detached) on the object at path of the session's root.
func (b *builder) put(tree *os.File, path string) error {
	at, err := b.at(path)
	if err != nil {
		return err
	}
	defer at.Close()
	if err := move(tree, at); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}
