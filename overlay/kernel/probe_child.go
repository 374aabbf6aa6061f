package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// ProbeMain is the stage that Probe starts: it tries a view below the directory
// in os.Args[2], prints one JSON object, and returns.
func ProbeMain() {
	var r result
	if len(os.Args) != 3 {
		r = result{Step: "child", Err: "no directory given"}
	} else {
		r = tryAll(os.Args[2])
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
}

// tries are what a session relies on, in order; each sees the leftovers of the
// ones before.
var tries = []struct {
	step string
	try  func(probeDirs) error
}{
	{"layers", probeDirs.makeLayers},
	{"mount", probeDirs.mount},
	{"create", probeDirs.tryCreate},
	{"whiteout", probeDirs.tryWhiteout},
	{"opaque", probeDirs.tryOpaque},
	{"exchange", probeDirs.tryExchange},
	{"xattr", probeDirs.tryXattr},
	{"forged mark", probeDirs.tryForged},
}

func tryAll(dir string) result {
	p := probeDirs(dir)
	defer p.remove()
	for _, t := range tries {
		if err := t.try(p); err != nil {
			r := result{Step: t.step, Err: err.Error()}
			var errno syscall.Errno
			if errors.As(err, &errno) {
				r.Errno = int(errno)
			}
			return r
		}
	}
	return result{}
}

// probeDirs is a directory with the layers lower, upper and work, and the view.
type probeDirs string

func (p probeDirs) path(names ...string) string {
	return filepath.Join(append([]string{string(p)}, names...)...)
}

func (p probeDirs) makeLayers() error {
	for _, n := range []string{"lower", "lower/dir", "upper", "work", "view"} {
		if err := os.Mkdir(p.path(n), 0o700); err != nil {
			return err
		}
	}
	for _, n := range []string{"gone", "kept", "dir/hidden"} {
		if err := os.WriteFile(p.path("lower", n), []byte(n), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p probeDirs) mount() error {
	if err := mnt.MakePrivate(); err != nil {
		return err
	}
	var f [3]*os.File
	for i, n := range []string{"lower", "upper", "work"} {
		fd, err := unix.Open(p.path(n), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", n, err)
		}
		f[i] = os.NewFile(uintptr(fd), n)
		defer func() { _ = f[i].Close() }()
	}
	view, err := Backend{}.Mount(overlay.Spec{Lowers: f[:1], Upper: f[1], Work: f[2]})
	if err != nil {
		return err
	}
	defer func() { _ = view.Close() }()
	return mnt.Move(int(view.Fd()), unix.AT_FDCWD, p.path("view"))
}

func (p probeDirs) tryCreate() error {
	return os.WriteFile(p.path("view", "new"), []byte("new"), 0o600)
}

func (p probeDirs) tryWhiteout() error {
	if err := os.Remove(p.path("view", "gone")); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(p.path("upper", "gone"), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		return fmt.Errorf("a deleted file is kept as mode %o, device %d", st.Mode, st.Rdev)
	}
	return nil
}

func (p probeDirs) tryOpaque() error {
	if err := os.RemoveAll(p.path("view", "dir")); err != nil {
		return err
	}
	if err := os.Mkdir(p.path("view", "dir"), 0o700); err != nil {
		return err
	}
	var v [8]byte
	n, err := unix.Lgetxattr(p.path("upper", "dir"), "user.overlay.opaque", v[:])
	if err != nil {
		return fmt.Errorf("read the mark of a directory made anew: %w", err)
	}
	if string(v[:n]) != "y" {
		return fmt.Errorf("a directory made anew is marked %q", v[:n])
	}
	return nil
}

func (p probeDirs) tryExchange() error {
	return unix.Renameat2(unix.AT_FDCWD, p.path("view", "new"), unix.AT_FDCWD, p.path("view", "kept"), unix.RENAME_EXCHANGE)
}

func (p probeDirs) tryXattr() error {
	return unix.Lsetxattr(p.path("view", "kept"), "user.sbxd", []byte("1"), 0)
}

// tryForged makes sure that whoever uses the view cannot write a mark: the
// kernel escapes it (Linux 6.7) or refuses.
func (p probeDirs) tryForged() error {
	_ = unix.Lsetxattr(p.path("view", "dir"), "user.overlay.redirect", []byte("/"), 0)
	var v [8]byte
	if _, err := unix.Lgetxattr(p.path("upper", "dir"), "user.overlay.redirect", v[:]); err == nil {
		return errors.New("a mark set through the view is stored as one")
	}
	return nil
}

// remove takes the layers away; as root of its namespace this process may also
// enter the mode 000 directory that overlayfs leaves in work.
func (p probeDirs) remove() {
	_ = mnt.Detach(p.path("view"))
	_ = os.RemoveAll(string(p))
}
