package holder

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// walkFlags are how every path inside the tree is resolved: agent-made links of an
// earlier run are never followed.
const walkFlags = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openPath opens path for reference only, links refused.
func openPath(path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openLong is openPath for an absolute host path of any length.
func openLong(path string) (*os.File, error) {
	root, err := openPath("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return walk(root, path)
}

// maxHop is how much of a path one system call gets; the kernel's limit is PATH_MAX,
// 4,096 bytes with the NUL.
const maxHop = 2048

// walk opens path beneath dir for reference only. The last component may be a link,
// which is opened itself.
func walk(dir *os.File, path string) (*os.File, error) {
	cur, rest := dir, strings.Trim(path, "/")
	for first := true; ; first = false {
		hop := rest
		if len(hop) > maxHop {
			if i := strings.LastIndexByte(hop[:maxHop], '/'); i > 0 {
				hop = hop[:i]
			}
		}
		rest = strings.TrimPrefix(rest[len(hop):], "/")
		if hop == "" {
			hop = "."
		}
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: walkFlags}
		fd, err := unix.Openat2(int(cur.Fd()), hop, &how)
		if !first {
			_ = cur.Close()
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		cur = os.NewFile(uintptr(fd), path)
		if rest == "" {
			return cur, nil
		}
	}
}

// at opens the object at path of the session's root.
func (b *builder) at(path string) (*os.File, error) { return walk(b.root, path) }

// mkdirAll makes the directories of path inside the tree that are not there, and pins
// those that the agent could otherwise rename: a directory made in a scratch file
// system becomes a mount point of itself.
func (b *builder) mkdirAll(path string) error {
	if f, err := b.at(path); err == nil {
		return f.Close()
	}
	parent, name := split(path)
	if name == "" {
		return nil
	}
	if err := b.mkdirAll(parent); err != nil {
		return err
	}
	dir, err := b.at(parent)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkdirat(int(dir.Fd()), name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the directory %s of the session: %w", path, err)
	}
	if !scratchPath(path) {
		return nil
	}
	return b.pin(path)
}

// pin mounts the directory or link at path on itself: renaming or removing it is EBUSY then.
func (b *builder) pin(path string) error {
	at, err := b.at(path)
	if err != nil {
		return err
	}
	defer at.Close()
	tree, err := clone(at, true)
	if err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	defer tree.Close()
	return move(tree, at)
}

// makeFile makes an empty file at path as a mount point, its directories too.
func (b *builder) makeFile(path string) error {
	parent, name := split(path)
	if err := b.mkdirAll(parent); err != nil {
		return err
	}
	dir, err := b.at(parent)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Mknodat(int(dir.Fd()), name, unix.S_IFREG|0o444, 0)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the file %s of the session: %w", path, err)
	}
	return nil
}

// makeLink makes a link at path, pinned like a directory, unless something is there.
func (b *builder) makeLink(path, target string) error {
	if f, err := b.at(path); err == nil {
		return f.Close()
	}
	parent, name := split(path)
	if err := b.mkdirAll(parent); err != nil {
		return err
	}
	dir, err := b.at(parent)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Symlinkat(target, int(dir.Fd()), name); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the link %s of the session: %w", path, err)
	}
	if !scratchPath(path) {
		return nil
	}
	return b.pin(path)
}

// split cuts the last component off an absolute path.
func split(path string) (parent, name string) {
	path = strings.TrimRight(path, "/")
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "/", path
	}
	return path[:i+1], path[i+1:]
}

// scratchPath reports whether path lies in a file system that the agent may write
// and that no lower directory backs.
func scratchPath(path string) bool {
	return strings.HasPrefix(path, "/tmp/") || strings.HasPrefix(path, "/var/tmp/") || strings.HasPrefix(path, "/run/user/")
}
