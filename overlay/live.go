package overlay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
)

// Live is a Base that reads the real tree, as it is now. It is meant for one
// decoding, in one goroutine: a directory that somebody replaces meanwhile may
// still be read as it was.
type Live struct {
	root *safefs.Dir
	dir  *safefs.Dir // the directory looked at last, of path at
	at   string
	buf  [2][]byte // for SameBytes
}

var _ Base = (*Live)(nil)

// NewLive returns the tree below root, which the caller closes after Close. Mounts
// below it are not part of it, as they are not part of a view: root is set to
// OneMount.
func NewLive(root *safefs.Dir) *Live { return &Live{root: root.OneMount()} }

// Close closes what Live opened itself.
func (l *Live) Close() error {
	if l.dir == nil {
		return nil
	}
	err := l.dir.Close()
	l.dir = nil
	return err
}

// parent opens the directory of path; the last one stays open, since entries
// are asked for directory by directory.
func (l *Live) parent(path string) (*safefs.Dir, string, error) {
	dir, name := split(path)
	if dir == "" {
		return l.root, name, nil
	}
	if l.dir != nil && l.at == dir {
		return l.dir, name, nil
	}
	d, err := l.root.Sub(dir)
	if err != nil {
		return nil, "", missing(err)
	}
	_ = l.Close()
	l.dir, l.at = d, dir
	return d, name, nil
}

// missing turns "a parent is no directory of this tree" into fs.ErrNotExist.
func missing(err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return &fs.PathError{Op: pe.Op, Path: pe.Path, Err: fs.ErrNotExist}
		}
	}
	return err
}

// Lstat implements Base.
func (l *Live) Lstat(path string) (Entry, error) {
	d, name, err := l.parent(path)
	if err != nil {
		return Entry{}, err
	}
	st, err := d.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{
		Type: typeOf(st), Mode: st.Perm(), Nlink: st.Nlink,
		Dev: st.Dev, Ino: st.Ino, MTime: st.Mtime, Mount: st.MountRoot,
	}
	switch e.Type {
	case Symlink:
		e.Target, err = d.Readlink(name)
	case Device:
		e.Rdev = st.Rdev
	case File:
		e.Size = st.Size
		e.Xattrs = l.xattrs(d, name)
	case Dir:
		e.Xattrs = l.xattrs(d, name)
	}
	return e, err
}

// xattrs returns the user.* attributes, or nil if they cannot be read: then
// nobody without privileges can have copied them.
func (l *Live) xattrs(d *safefs.Dir, name string) map[string][]byte {
	names, err := d.Listxattr(name)
	if err != nil {
		return nil
	}
	out := map[string][]byte{}
	for _, n := range names {
		if !strings.HasPrefix(n, "user.") || strings.HasPrefix(n, ns) || isForeign(n) {
			continue
		}
		v, err := d.Getxattr(name, n)
		if err != nil {
			return nil
		}
		out[n] = v
	}
	return out
}

// ReadDir implements Base.
func (l *Live) ReadDir(path string) ([]string, error) {
	var names []string
	err := l.root.Each(path, func(e safefs.Entry) error {
		names = append(names, e.Name)
		return nil
	})
	return names, missing(err)
}

// SameBytes implements Base.
func (l *Live) SameBytes(ctx context.Context, path string, f *os.File) (bool, error) {
	d, name, err := l.parent(path)
	if err != nil {
		return false, err
	}
	g, err := openRegular(d, name)
	if err != nil {
		return false, err
	}
	defer func() { _ = g.Close() }()
	if l.buf[0] == nil {
		l.buf[0], l.buf[1] = make([]byte, chunk), make([]byte, chunk)
	}
	return sameBytes(ctx, f, g, l.buf[0], l.buf[1])
}

// chunk is how much is compared at once.
const chunk = 128 << 10

func sameBytes(ctx context.Context, f, g io.Reader, a, b []byte) (bool, error) {
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, errF := io.ReadFull(f, a)
		m, errG := io.ReadFull(g, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		for _, err := range []error{errF, errG} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
		}
		if errF != nil || errG != nil {
			return errF != nil && errG != nil, nil
		}
	}
}

// openRegular opens a regular file, with any number of links, for reading.
func openRegular(d *safefs.Dir, name string) (*os.File, error) {
	f, err := d.Open(name, unix.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	st, err := safefs.StatFD(int(f.Fd()))
	if err == nil && !st.IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: safefs.ErrNotRegular}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func typeOf(st safefs.Stat) Type {
	switch st.Type() {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Symlink
	case unix.S_IFIFO:
		return FIFO
	case unix.S_IFSOCK:
		return Socket
	}
	return Device
}
