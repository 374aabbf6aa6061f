package safefs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxXattrs bounds the list of attribute names of one file, in bytes: the
// kernel's XATTR_LIST_MAX.
const maxXattrs = 64 << 10

// handle opens rel without any right but that to name it, and calls f with a
// path that leads to exactly that file. A link gives ELOOP.
func (d *Dir) handle(op, rel string, f func(path string) error) error {
	fd, err := d.open(rel, unix.O_PATH, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		var st Stat
		if st, err = statAt(fd, ""); err == nil && st.IsSymlink() {
			err = unix.ELOOP
		}
		if err == nil {
			err = again(func() error { return f(fmt.Sprintf("/proc/self/fd/%d", fd)) })
		}
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: rel, Err: err}
	}
	return nil
}

// Chmod sets the permission bits (with setuid, setgid and sticky). A link is
// refused.
func (d *Dir) Chmod(rel string, mode uint32) error {
	return d.handle("chmod", rel, func(path string) error { return unix.Chmod(path, mode&0o7777) })
}

// Chown sets the owner; of a link, the link's. -1 keeps an id.
func (d *Dir) Chown(rel string, uid, gid int) error {
	return d.do("chown", rel, func(a at) error {
		return unix.Fchownat(a.fd, a.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Chtimes sets access and modification time, of a link the link's.
func (d *Dir) Chtimes(rel string, atime, mtime Time) error {
	ts := []unix.Timespec{{Sec: atime.Sec, Nsec: int64(atime.Nsec)}, {Sec: mtime.Sec, Nsec: int64(mtime.Nsec)}}
	return d.do("chtimes", rel, func(a at) error {
		return unix.UtimesNanoAt(a.fd, a.name, ts, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Getxattr returns the value of an extended attribute; ENODATA when there is
// none.
func (d *Dir) Getxattr(rel, attr string) ([]byte, error) {
	var out []byte
	err := d.handle("getxattr", rel, func(path string) (err error) {
		out, err = grow(256, 64<<10, func(b []byte) (int, error) { return unix.Getxattr(path, attr, b) })
		return err
	})
	return out, err
}

// Setxattr sets an extended attribute.
func (d *Dir) Setxattr(rel, attr string, value []byte) error {
	return d.handle("setxattr", rel, func(path string) error { return unix.Setxattr(path, attr, value, 0) })
}

// Removexattr removes an extended attribute.
func (d *Dir) Removexattr(rel, attr string) error {
	return d.handle("removexattr", rel, func(path string) error { return unix.Removexattr(path, attr) })
}

// Listxattr returns the names of the extended attributes, sorted. A file system
// without them has none.
func (d *Dir) Listxattr(rel string) ([]string, error) {
	var out []string
	err := d.handle("listxattr", rel, func(path string) error {
		b, err := grow(256, maxXattrs, func(b []byte) (int, error) { return unix.Listxattr(path, b) })
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		for name := range strings.SplitSeq(string(b), "\x00") {
			if name != "" {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return err
	})
	return out, err
}

// grow calls f with buffers of doubling size while it answers ERANGE.
func grow(from, most int, f func([]byte) (int, error)) ([]byte, error) {
	for size := from; ; size *= 2 {
		buf := make([]byte, size)
		n, err := f(buf)
		if errors.Is(err, unix.ERANGE) && size < most {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}
