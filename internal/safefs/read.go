package safefs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ReadRegular returns the content of a regular file with one link and at most
// limit bytes. Anything else is refused: ErrNotRegular, ErrLinked, ErrTooLarge.
func (d *Dir) ReadRegular(rel string, limit int64) ([]byte, error) {
	b, err := d.readRegular(rel, limit)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return nil, err
		}
		return nil, &fs.PathError{Op: "read", Path: rel, Err: err}
	}
	return b, nil
}

func (d *Dir) readRegular(rel string, limit int64) ([]byte, error) {
	f, _, err := d.OpenRegular(rel)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, ErrTooLarge
	}
	return b.Bytes(), nil
}

// OpenRegular opens a regular file with one link for reading and describes what
// was opened.
func (d *Dir) OpenRegular(rel string) (*os.File, Stat, error) {
	f, err := d.Open(rel, unix.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, Stat{}, err
	}
	st, err := statAt(int(f.Fd()), "")
	switch {
	case err != nil:
	case !st.IsRegular():
		err = ErrNotRegular
	case st.Nlink != 1:
		err = ErrLinked
	}
	if err != nil {
		_ = f.Close()
		return nil, Stat{}, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	return f, st, nil
}

// Entry is a name in a directory and its type (unix.S_IF*).
type Entry struct {
	Name string
	Type uint32
}

// IsDir reports whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Type == unix.S_IFDIR }

// ReadDir returns the entries of the directory rel sorted by name, without "."
// and "..". For directories that may be huge use Each.
func (d *Dir) ReadDir(rel string) ([]Entry, error) {
	var out []Entry
	err := d.Each(rel, func(e Entry) error {
		out = append(out, e)
		return nil
	})
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// Each calls f for each entry of the directory rel in no order, and stops at its
// first error, which it returns as it is.
func (d *Dir) Each(rel string, f func(Entry) error) error {
	fd, err := d.open(rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return &fs.PathError{Op: "read directory", Path: rel, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 32<<10)
	for {
		batch, err := getdents(fd, buf)
		if err != nil {
			return &fs.PathError{Op: "read directory", Path: rel, Err: err}
		}
		if len(batch) == 0 {
			return nil
		}
		for _, e := range batch {
			if err := f(e); err != nil {
				return err
			}
		}
	}
}

// getdents returns the next entries of the directory at fd; none at its end.
func getdents(fd int, buf []byte) ([]Entry, error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return nil, err
		}
		out := parseDirents(fd, buf[:n])
		if len(out) > 0 {
			return out, nil
		}
	}
}

// parseDirents reads struct linux_dirent64: u64 ino, s64 off, u16 reclen, u8
// type, name, NUL.
func parseDirents(fd int, b []byte) []Entry {
	const header = 19
	var out []Entry
	for len(b) > header {
		n := int(binary.NativeEndian.Uint16(b[16:]))
		if n <= header || n > len(b) {
			return out
		}
		name, _, _ := bytes.Cut(b[header:n], []byte{0})
		if s := string(name); s != "." && s != ".." {
			out = append(out, Entry{Name: s, Type: direntType(fd, s, b[18])})
		}
		b = b[n:]
	}
	return out
}

// direntType turns d_type into S_IF*, asking the file where the file system does
// not say.
func direntType(fd int, name string, t byte) uint32 {
	if t != unix.DT_UNKNOWN {
		return uint32(t) << 12
	}
	st, err := statAt(fd, name)
	if err != nil {
		return 0
	}
	return st.Type()
}
