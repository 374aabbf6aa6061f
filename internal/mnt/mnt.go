// Package mnt is the new mount API of Linux (fsopen, fsmount, open_tree,
// mount_setattr, move_mount; man pages of the same names) by descriptor.
//
// The one idea: a mount is built detached, finished, and only then attached, so
// no path that an agent could have changed is ever walked, and a failure leaves
// no mount behind. The package knows descriptors and flags. It must not know
// what is mounted or why. Descriptors are plain ints; the caller closes what it
// is given.
package mnt

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Error says which call failed on what. Unwrap gives the errno; Detail is the
// kernel's own explanation where it gave one (file system contexts only).
type Error struct {
	Op     string
	Source string
	Target string
	Detail string
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	for _, s := range []string{e.Source, e.Target} {
		if s != "" {
			fmt.Fprintf(&b, " %q", s)
		}
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	return b.String()
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Err }

// Name is a descriptor as a path, for calls that take only paths.
func Name(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// OpenTree opens path below dirfd as open_tree(2) does, with flags of
// unix.OPEN_TREE_*, unix.AT_*; close-on-exec always. An empty path means dirfd
// itself.
func OpenTree(dirfd int, path string, flags uint) (int, error) {
	flags |= unix.O_CLOEXEC
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := retry(func() (int, error) { return unix.OpenTree(dirfd, path, flags) })
	if err != nil {
		return -1, &Error{Op: "open tree", Source: path, Err: err}
	}
	return fd, nil
}

// Clone makes a detached copy of the mount at fd, rooted at fd; with recursive,
// of the mounts below it too. It is what a bind mount is made of. The copy
// disappears when its descriptor is closed before Move.
func Clone(fd int, recursive bool) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.AT_NO_AUTOMOUNT)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return OpenTree(fd, "", flags)
}

// SetAttr sets and clears unix.MOUNT_ATTR_* on the mount at fd; with recursive,
// on the mounts below it too. Either all of them change or none.
func SetAttr(fd int, set, clr uint64, recursive bool) error {
	return setattr(fd, &unix.MountAttr{Attr_set: set, Attr_clr: clr}, recursive)
}

// SetPropagation makes the mount at fd unix.MS_SHARED, MS_SLAVE or MS_PRIVATE, as
// mount_namespaces(7) has it; with recursive, the mounts below it too.
func SetPropagation(fd int, kind uint64, recursive bool) error {
	return setattr(fd, &unix.MountAttr{Propagation: kind}, recursive)
}

func setattr(fd int, attr *unix.MountAttr, recursive bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	_, err := retry(func() (int, error) { return 0, unix.MountSetattr(fd, "", flags, attr) })
	if err != nil {
		return &Error{Op: "set mount attributes", Err: err}
	}
	return nil
}

// Move attaches the detached (or moves the attached) mount at from onto path
// below toDir; an empty path means toDir itself. A link at path is never
// followed and is itself covered; automounts are not triggered.
func Move(from, toDir int, path string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	_, err := retry(func() (int, error) { return 0, unix.MoveMount(from, "", toDir, path, flags) })
	if err != nil {
		return &Error{Op: "move mount", Target: path, Err: err}
	}
	return nil
}

// Tmpfs makes a detached tmpfs of at most size bytes and inodes inodes (0 means
// the kernel's default of half the memory: pass a bound), whose root has mode.
// It is nosuid and nodev.
func Tmpfs(size, inodes int64, mode uint32) (int, error) {
	c, err := Open("tmpfs")
	if err != nil {
		return -1, err
	}
	defer c.Close()
	opts := [][2]string{{"mode", fmt.Sprintf("%o", mode&0o7777)}}
	if size > 0 {
		opts = append(opts, [2]string{"size", fmt.Sprint(size)})
	}
	if inodes > 0 {
		opts = append(opts, [2]string{"nr_inodes", fmt.Sprint(inodes)})
	}
	for _, o := range opts {
		if err := c.Set(o[0], o[1]); err != nil {
			return -1, err
		}
	}
	return c.Mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
}

// MakePrivate stops all propagation to and from the calling process's mount
// namespace. Call it in a namespace of one's own only.
func MakePrivate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &Error{Op: "make mounts private", Target: "/", Err: err}
	}
	return nil
}

// Detach lazily removes the mount at path (umount2(2) MNT_DETACH), never
// following a link at path.
func Detach(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return &Error{Op: "unmount", Target: path, Err: err}
	}
	return nil
}

// DetachFD lazily removes the mount whose root fd is.
func DetachFD(fd int) error {
	if err := unix.Unmount(Name(fd), unix.MNT_DETACH); err != nil {
		return &Error{Op: "unmount", Target: Name(fd), Err: err}
	}
	return nil
}

// IsUnsupported reports whether err says that the kernel, or a filter around
// us, does not offer the call at all.
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, os.ErrPermission)
}

func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
