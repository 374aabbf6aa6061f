package holder

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
)

// tree is the root of a session while it grows, and the descriptors that are open for
// it; close lets go of them.
type tree struct {
	root   *os.File // rootPath
	opened []*os.File
	mounts int // attached so far, without those that came below them
}

func (t *tree) close() {
	for _, f := range t.opened {
		_ = f.Close()
	}
}

// keep remembers a descriptor for close.
func (t *tree) keep(f *os.File, err error) (*os.File, error) {
	if f != nil {
		t.opened = append(t.opened, f)
	}
	return f, err
}

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
func (t *tree) at(path string) (*os.File, error) { return walk(t.root, path) }

// mkdirAll makes the directories of path inside the tree that are not there, and pins
// those that the agent could otherwise rename: a directory made in a scratch file
// system becomes a mount point of itself.
func (t *tree) mkdirAll(path string) error {
	if f, err := t.at(path); err == nil {
		return f.Close()
	}
	parent, name := split(path)
	if name == "" {
		return nil
	}
	if err := t.mkdirAll(parent); err != nil {
		return err
	}
	dir, err := t.at(parent)
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
	return t.pin(path)
}

// pin mounts the directory or link at path on itself: renaming or removing it is EBUSY then.
func (t *tree) pin(path string) error {
	at, err := t.at(path)
	if err != nil {
		return err
	}
	defer at.Close()
	pinned, err := clone(at, true)
	if err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	defer pinned.Close()
	// Not a peer of what it covers: what comes later comes once.
	if err := mnt.SetPropagation(int(pinned.Fd()), unix.MS_PRIVATE, true); err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	return t.attach(pinned, at)
}

// put mounts a detached tree on the object at path of the session's root.
func (t *tree) put(mount *os.File, path string) error {
	at, err := t.at(path)
	if err != nil {
		return err
	}
	defer at.Close()
	if err := t.attach(mount, at); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// attach mounts a detached tree on the very object that at refers to.
func (t *tree) attach(mount, at *os.File) error {
	err := move(mount, at)
	if err == nil {
		t.mounts++
	}
	return err
}

// attr sets and clears attributes of the mount at path, in this namespace alone.
func (t *tree) attr(path string, set, clr uint64) error {
	at, err := t.at(path)
	if err != nil {
		return err
	}
	defer at.Close()
	return mnt.SetAttr(int(at.Fd()), set, clr, false)
}

// makeFile makes an empty file at path as a mount point, its directories too.
func (t *tree) makeFile(path string) error {
	parent, name := split(path)
	if err := t.mkdirAll(parent); err != nil {
		return err
	}
	dir, err := t.at(parent)
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
func (t *tree) makeLink(path, target string) error {
	if f, err := t.at(path); err == nil {
		return f.Close()
	}
	parent, name := split(path)
	if err := t.mkdirAll(parent); err != nil {
		return err
	}
	dir, err := t.at(parent)
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
	return t.pin(path)
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
	return strings.HasPrefix(path, "/tmp/") || strings.HasPrefix(path, "/var/tmp/") || strings.HasPrefix(path, runPath+"/user/")
}
