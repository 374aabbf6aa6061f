package overlaytest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// op is one random operation on paths a and b below a root.
type op struct {
	what, a, b string
	n          int
}

func (o op) String() string { return fmt.Sprintf("%s %s %s %d", o.what, o.a, o.b, o.n) }

// kinds of operations; the first few fill bases, and are made to succeed often.
var kinds = []string{
	"make", "make", "mkdirs", "relink", "setxattr", "again", "write", "mkdir", "symlink",
	"append", "truncate", "unlink", "rmdir", "rename", "rename", "exchange", "link", "chmod",
	"rmxattr", "mkfifo", "tmpfile", "read", "list", "times", "remove",
}

// modes keep the owner's rights, so that the outcome does not hang on the order
// in which a file system looks for errors.
var modes = []uint32{0o700, 0o755, 0o711, 0o4750, 0o1777, 0o640}

func genOp(kinds []string) *rapid.Generator[op] {
	name := rapid.SampledFrom([]string{"a", "b", ".wh.a"})
	path := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "path"), "/")
	})
	return rapid.Custom(func(t *rapid.T) op {
		return op{
			what: rapid.SampledFrom(kinds).Draw(t, "op"),
			a:    path.Draw(t, "a"), b: path.Draw(t, "b"), n: rapid.IntRange(0, 5).Draw(t, "n"),
		}
	})
}

// random runs the same operations on a plain directory and on a view. Each must
// have the same outcome, and the trees must be the same: at once, after a remount,
// and as base + Changes.
func (s *suite) random(t *testing.T) {
	base := rapid.SliceOfN(genOp(kinds[:5]), 8, 30)
	ops := rapid.SliceOfN(genOp(kinds), 5, 60)
	top := memory(t)
	rapid.Check(t, func(rt *rapid.T) {
		fill, play := base.Draw(rt, "base"), ops.Draw(rt, "ops")
		dir, err := os.MkdirTemp(top, "") //nolint:usetesting // in memory
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		plain := dir + "/plain"
		setup := func(root string) error {
			for _, o := range fill {
				_, _ = o.run(root)
			}
			return os.Chmod(root, 0o755)
		}
		if err := errors.Join(os.Mkdir(plain, 0o755), asAgent(func() error { return setup(plain) })); err != nil {
			rt.Fatal(err)
		}
		v := s.makeView(rt, dir, setup)
		defer v.finish()
		v.agent(func() error {
			for i, o := range play {
				if err := both(o, plain, v.P); err != nil {
					return fmt.Errorf("operation %d: %w", i, err)
				}
			}
			return nil
		})
		v.consistent(v.tree(plain))
	})
}

// both runs o on both roots. Two differences are allowed. A view may refuse to
// rename a directory (EXDEV); then both copy it, as mv(1) does. And it may not
// know that two names are one file (ESTALE), where a rename does nothing: in a
// user namespace overlayfs cannot record where a file was copied from, so a link
// made to a lower file has an inode number of its own until it is looked up anew.
func both(o op, plain, view string) error {
	seen, verr := o.run(view)
	if errors.Is(verr, unix.ESTALE) && o.what == "rename" && oneFile(plain+"/"+o.a, plain+"/"+o.b) {
		return nil
	}
	if errors.Is(verr, unix.EXDEV) && (o.what == "rename" || o.what == "exchange") {
		if o.what == "exchange" {
			return nil
		}
		verr, perr := o.move(view), o.move(plain)
		if (verr == nil) != (perr == nil) {
			return fmt.Errorf("%s by copying: %s, on a plain directory %s", o, text(verr), text(perr))
		}
		return nil
	}
	wanted, perr := o.run(plain)
	if !errors.Is(verr, perr) {
		return fmt.Errorf("%s: %s, on a plain directory %s", o, text(verr), text(perr))
	}
	if seen != wanted {
		return fmt.Errorf("%s gives %q, on a plain directory %q", o, seen, wanted)
	}
	return nil
}

func oneFile(a, b string) bool {
	x, xerr := os.Lstat(a)
	y, yerr := os.Lstat(b)
	return xerr == nil && yerr == nil && os.SameFile(x, y)
}

// move renames a directory by copying.
func (o op) move(root string) error {
	a, b := root+"/"+o.a, root+"/"+o.b
	if strings.HasPrefix(b+"/", a+"/") {
		return unix.EINVAL
	}
	if err := unix.Rmdir(b); err != nil && err != unix.ENOENT {
		return err
	}
	return script(root, `cp -aT -- "$A" "$B" && rm -r -- "$A"`, "A="+a, "B="+b)
}

// run returns what the operation shows, and the errno.
func (o op) run(root string) (string, error) {
	a, b := root+"/"+o.a, root+"/"+o.b
	switch o.what {
	case "make": // mostly of one size, so that bytes must be compared
		_ = os.MkdirAll(root+"/"+dirOf(o.a), 0o755)
		return "", put1(a, unix.O_CREAT|unix.O_TRUNC, fmt.Sprint(o.n))
	case "mkdirs":
		return "", errno(os.MkdirAll(a, 0o755))
	case "relink":
		_ = unix.Unlink(a)
		return "", unix.Symlink(o.b, a)
	case "again": // what was there must not come back
		_ = removeTree(a)
		return "", errno(os.MkdirAll(a+"/b", 0o755))
	case "write":
		return "", put1(a, unix.O_CREAT|unix.O_TRUNC, strings.Repeat(o.b, o.n))
	case "append":
		return "", put1(a, unix.O_APPEND, strings.Repeat("+", o.n))
	case "truncate":
		return "", unix.Truncate(a, int64(o.n))
	case "mkdir":
		return "", unix.Mkdir(a, 0o755)
	case "symlink":
		return "", unix.Symlink(o.b, a)
	case "setxattr":
		return "", unix.Lsetxattr(a, "user."+[]string{"x", "y"}[o.n%2], []byte(o.b), 0)
	case "rmxattr":
		return "", unix.Lremovexattr(a, "user.x")
	case "unlink":
		return "", unix.Unlink(a)
	case "rmdir":
		return "", unix.Rmdir(a)
	case "remove":
		return "", removeTree(a)
	case "rename":
		return "", unix.Rename(a, b)
	case "exchange":
		return "", unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	case "link":
		return "", unix.Link(a, b)
	case "chmod":
		return "", o.chmod(a)
	case "mkfifo":
		return "", unix.Mkfifo(a, 0o600)
	case "tmpfile":
		return "", tmp1(a, o.b)
	case "times":
		return "", unix.UtimesNanoAt(unix.AT_FDCWD, a, []unix.Timespec{{Sec: 1}, {Sec: int64(o.n)}}, unix.AT_SYMLINK_NOFOLLOW)
	case "read":
		return read1(a)
	case "list":
		return list1(a)
	}
	return "", unix.ENOSYS
}

// chmod leaves directories usable.
func (o op) chmod(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	mode := modes[o.n]
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= 0o700
	}
	return unix.Chmod(path, mode)
}
