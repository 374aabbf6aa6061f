package safefs

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mkdir makes a directory; the process's umask applies to mode.
func (d *Dir) Mkdir(rel string, mode uint32) error {
	return d.do("mkdir", rel, func(a at) error { return unix.Mkdirat(a.fd, a.name, mode) })
}

// MkdirAll makes rel and its missing parents. What is there and not a directory,
// a link included, is an error.
func (d *Dir) MkdirAll(rel string, mode uint32) error {
	if err := check(rel); err != nil {
		return &fs.PathError{Op: "mkdir", Path: rel, Err: err}
	}
	cur := d
	for name := range strings.SplitSeq(rel, "/") {
		if name == "" || name == "." {
			continue
		}
		if err := cur.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			cur.release(d)
			return err
		}
		next, err := cur.Sub(name)
		cur.release(d)
		if err != nil {
			return err
		}
		cur = next
	}
	cur.release(d)
	return nil
}

// release closes a step of a walk that started at top.
func (d *Dir) release(top *Dir) {
	if d != top {
		_ = d.Close()
	}
}

// Remove removes a file, a link or an empty directory.
func (d *Dir) Remove(rel string) error {
	return d.do("remove", rel, func(a at) error { return remove(a.fd, a.name) })
}

func remove(fd int, name string) error {
	err := unlink(fd, name, 0)
	if errors.Is(err, unix.EISDIR) {
		return unlink(fd, name, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.EPERM) { // POSIX's answer for a directory; also that of an immutable file
		if e := unlink(fd, name, unix.AT_REMOVEDIR); !errors.Is(e, unix.ENOTDIR) {
			return e
		}
	}
	return err
}

// Rename moves old below d to new below to, replacing what is there as
// rename(2) does.
func (d *Dir) Rename(old string, to *Dir, name string) error { return d.rename(old, to, name, 0) }

// RenameNoReplace is Rename that fails with fs.ErrExist when name is taken.
func (d *Dir) RenameNoReplace(old string, to *Dir, name string) error {
	return d.rename(old, to, name, unix.RENAME_NOREPLACE)
}

// Exchange swaps two entries in one step. Both must be there.
func (d *Dir) Exchange(old string, to *Dir, name string) error {
	return d.rename(old, to, name, unix.RENAME_EXCHANGE)
}

func (d *Dir) rename(old string, to *Dir, name string, flags uint) error {
	return d.two("rename", old, to, name, func(a, b at) error {
		return unix.Renameat2(a.fd, a.name, b.fd, b.name, flags)
	})
}

// Link makes name below to another hard link of old; a link is not followed.
func (d *Dir) Link(old string, to *Dir, name string) error {
	return d.two("link", old, to, name, func(a, b at) error {
		return unix.Linkat(a.fd, a.name, b.fd, b.name, 0)
	})
}

// Symlink makes rel a link with the given target, which is not interpreted.
func (d *Dir) Symlink(target, rel string) error {
	return d.do("symlink", rel, func(a at) error { return unix.Symlinkat(target, a.fd, a.name) })
}

// Mknod makes a FIFO, socket or device; mode holds the type. A character device
// 0:0 is a whiteout, which needs no privilege since Linux 5.8.
func (d *Dir) Mknod(rel string, mode uint32, dev uint64) error {
	return d.do("mknod", rel, func(a at) error {
		return unix.Mknodat(a.fd, a.name, mode, int(dev))
	})
}

// Readlink returns the target of a link. Targets are at most PATH_MAX bytes.
func (d *Dir) Readlink(rel string) (string, error) {
	buf := make([]byte, unix.PathMax+1)
	n := 0
	err := d.do("readlink", rel, func(a at) (err error) {
		n, err = unix.Readlinkat(a.fd, a.name, buf)
		return err
	})
	return string(buf[:max(n, 0)]), err
}

// do runs one call on the entry rel.
func (d *Dir) do(op, rel string, f func(at) error) error {
	a, err := d.at(rel)
	if err == nil {
		defer a.close()
		err = again(func() error { return f(a) })
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: rel, Err: err}
	}
	return nil
}

func (d *Dir) two(op, old string, to *Dir, name string, f func(a, b at) error) error {
	a, err := d.at(old)
	if err != nil {
		return &os.LinkError{Op: op, Old: old, New: name, Err: err}
	}
	defer a.close()
	b, err := to.at(name)
	if err != nil {
		return &os.LinkError{Op: op, Old: old, New: name, Err: err}
	}
	defer b.close()
	if err := again(func() error { return f(a, b) }); err != nil {
		return &os.LinkError{Op: op, Old: old, New: name, Err: err}
	}
	return nil
}

func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
