// Package safefs reaches files in trees that somebody hostile writes to.
//
// The one idea: a directory descriptor and a relative name, resolved by the
// kernel in one step (openat2: beneath, no links, no magic links), never a
// joined path. What a Dir does not offer, such as following a link, cannot be
// done by mistake. The package knows the file system; it must not know sessions,
// overlays, or what a file is for.
//
// Names are bytes in a Go string: any byte but NUL and '/'. Relative paths may be
// longer than PATH_MAX.
package safefs

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What callers branch on, beside fs.ErrNotExist, fs.ErrExist and the errnos.
var (
	ErrPath       = errors.New("path is absolute, contains .. or NUL, or has a name that is too long")
	ErrMount      = errors.New("a mount is in the way")
	ErrNotRegular = errors.New("not a regular file")
	ErrLinked     = errors.New("file has another hard link")
	ErrTooLarge   = errors.New("file is larger than allowed")
	ErrUnstable   = errors.New("directory keeps changing")
)

// Dir is an open directory below which files are reached. Its methods may be
// called from several goroutines; Close only after the last.
type Dir struct {
	f       *os.File
	oneFS   bool
	resolve uint64
}

// base is how every name below a Dir is resolved.
const base = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// OpenDir opens a directory by a path that comes from the host's owner, not from
// a session: links in it are followed.
func OpenDir(path string) (*Dir, error) { return openDir(path, 0) }

// OpenReal is OpenDir for a path whose owner promised that it holds no links
// (a canonical path): a link anywhere in it gives ELOOP.
func OpenReal(path string) (*Dir, error) {
	return openDir(path, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
}

func openDir(path string, resolve uint64) (*Dir, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return nil, &fs.PathError{Op: "open directory", Path: path, Err: ErrPath}
	}
	at, rest := unix.AT_FDCWD, path
	for {
		head, tail := cut(rest)
		fd, err := openat2(at, head, unix.O_PATH|unix.O_DIRECTORY, 0, resolve)
		if at != unix.AT_FDCWD {
			_ = unix.Close(at)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open directory", Path: path, Err: err}
		}
		if tail == "" {
			return fromFD(fd, path), nil
		}
		at, rest = fd, tail
	}
}

// FromFile makes a Dir of an open directory (O_PATH is enough) and takes it over.
func FromFile(f *os.File) *Dir { return &Dir{f: f, resolve: base} }

func fromFD(fd int, name string) *Dir { return FromFile(os.NewFile(uintptr(fd), name)) }

// OneMount makes d, and every Dir got from it, refuse to enter another mount
// (EXDEV). It returns d. Call it before d is shared.
func (d *Dir) OneMount() *Dir {
	d.oneFS = true
	d.resolve = base | unix.RESOLVE_NO_XDEV
	return d
}

// Fd returns the descriptor, valid until Close.
func (d *Dir) Fd() int { return int(d.f.Fd()) }

// Name returns the name that the directory was opened with, for messages only.
func (d *Dir) Name() string { return d.f.Name() }

// Close closes the descriptor.
func (d *Dir) Close() error { return d.f.Close() }

// Open opens rel with the flags of open(2), which always also get O_CLOEXEC,
// O_NOFOLLOW and O_NONBLOCK: a link is refused (ELOOP), a FIFO does not block.
// mode is used when a file is created.
func (d *Dir) Open(rel string, flags int, mode uint32) (*os.File, error) {
	fd, err := d.open(rel, flags, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// Sub opens the directory rel.
func (d *Dir) Sub(rel string) (*Dir, error) {
	fd, err := d.open(rel, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open directory", Path: rel, Err: err}
	}
	sub := fromFD(fd, rel)
	sub.oneFS, sub.resolve = d.oneFS, d.resolve
	return sub, nil
}

// open resolves rel in as many steps as PATH_MAX asks for.
func (d *Dir) open(rel string, flags int, mode uint32) (int, error) {
	if err := check(rel); err != nil {
		return -1, err
	}
	at, rest := d.Fd(), rel
	for {
		head, tail := cut(rest)
		f, m := unix.O_PATH|unix.O_DIRECTORY, uint32(0)
		if tail == "" {
			f, m = flags, mode
		}
		fd, err := openat2(at, head, f, m, d.resolve)
		if at != d.Fd() {
			_ = unix.Close(at)
		}
		if err != nil || tail == "" {
			return fd, err
		}
		at, rest = fd, tail
	}
}

// retries bounds EAGAIN of openat2(2), which a rename or mount elsewhere at the
// wrong moment causes.
const retries = 1000

func openat2(at int, rel string, flags int, mode uint32, resolve uint64) (int, error) {
	flags |= unix.O_CLOEXEC
	if resolve != 0 && flags&unix.O_DIRECTORY == 0 {
		flags |= unix.O_NOFOLLOW // for a directory, resolve already refuses links, and says ELOOP
	}
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK
	}
	if flags&(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY) == 0 {
		mode = 0 // openat2 refuses a mode that has no use
	}
	how := &unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode & 0o7777), Resolve: resolve}
	for i := 0; ; i++ {
		fd, err := unix.Openat2(at, rel, how)
		if (err == unix.EAGAIN && i < retries) || err == unix.EINTR {
			continue
		}
		return fd, err
	}
}
