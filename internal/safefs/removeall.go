package safefs

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth is how many directories RemoveAll holds open. What lies deeper is
	// first moved up, so that no depth exhausts descriptors or stack.
	maxDepth = 64
	// maxPasses bounds how often one directory is read again while somebody keeps
	// filling it.
	maxPasses = 100
	// maxErrors bounds the errors that one RemoveAll reports.
	maxErrors = 8
)

// RemoveAll removes rel and everything below it; that it is not there is no
// error. It never follows a link and never enters or removes a mount
// (ErrMount); directories without the owner's rights get them first. It goes on
// after an error and returns the first few, joined.
func (d *Dir) RemoveAll(rel string) error {
	a, err := d.at(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: rel, Err: err}
	}
	defer a.close()
	r := &remover{top: -1}
	r.entry(a.fd, a.name, rel, 0)
	return errors.Join(r.errs...)
}

type remover struct {
	top   int // the directory whose tree is being removed: deep ones move here
	moved int
	errs  []error
}

func (r *remover) fail(path string, err error) bool {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, &fs.PathError{Op: "remove", Path: path, Err: err})
	}
	return false
}

// entry removes one entry, whatever it is, and reports whether it is gone.
func (r *remover) entry(parent int, name, path string, depth int) bool {
	err := unlink(parent, name, 0)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return true
	case errors.Is(err, unix.EBUSY):
		return r.fail(path, ErrMount)
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, fs.ErrPermission):
		return r.fail(path, err)
	}
	fd, e := openForRemoval(parent, name)
	switch {
	case errors.Is(e, unix.EXDEV):
		return r.fail(path, ErrMount)
	case errors.Is(e, unix.ENOENT):
		return true
	case errors.Is(e, unix.ENOTDIR) || errors.Is(e, unix.ELOOP):
		return r.fail(path, err) // not a directory: the first answer is the true one
	case e != nil:
		return r.fail(path, e)
	}
	defer func() { _ = unix.Close(fd) }()
	if depth == maxDepth {
		return r.moveUp(parent, name, path)
	}
	if r.top < 0 {
		r.top = fd
		defer func() { r.top = -1 }()
	}
	if !r.empty(fd, path, depth) {
		return false
	}
	err = unlink(parent, name, unix.AT_REMOVEDIR)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return true
	case errors.Is(err, unix.EBUSY):
		return r.fail(path, ErrMount)
	}
	return r.fail(path, err)
}

// empty removes what is in the directory at fd. It reads it again until it is
// empty or nothing more can be removed: entries may be moved into it (see
// moveUp), or be added by somebody.
func (r *remover) empty(fd int, path string, depth int) bool {
	buf := make([]byte, 8<<10)
	for range maxPasses {
		seen, gone := 0, 0
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return r.fail(path, err)
		}
		for {
			batch, err := getdents(fd, buf)
			if err != nil {
				return r.fail(path, err)
			}
			if len(batch) == 0 {
				break
			}
			for _, e := range batch {
				seen++
				if r.entry(fd, e.Name, path+"/"+e.Name, depth+1) {
					gone++
				}
			}
		}
		if seen == 0 {
			return true
		}
		if gone < seen {
			return false
		}
	}
	return r.fail(path, ErrUnstable)
}

// moveUp moves a directory that lies too deep into the top one, whose next pass
// removes it.
func (r *remover) moveUp(parent int, name, path string) bool {
	for range retries {
		r.moved++
		err := unix.Renameat2(parent, name, r.top, fmt.Sprintf(".deep-%d", r.moved), unix.RENAME_NOREPLACE)
		switch err {
		case nil, unix.ENOENT:
			return true
		case unix.EEXIST, unix.EINTR:
			continue
		}
		return r.fail(path, err)
	}
	return r.fail(path, ErrUnstable)
}

// openForRemoval opens a directory on the same mount for reading, and makes sure
// that its owner may read, enter and change it.
func openForRemoval(parent int, name string) (int, error) {
	const resolve = base | unix.RESOLVE_NO_XDEV
	h, err := openat2(parent, name, unix.O_PATH|unix.O_DIRECTORY, 0, resolve)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(h) }()
	st, err := statAt(h, "")
	if err != nil {
		return -1, err
	}
	if st.Mode&0o700 != 0o700 {
		// Without success the calls that follow say what is wrong.
		_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", h), 0o700)
	}
	return openat2(h, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0, resolve)
}

func unlink(fd int, name string, flags int) error {
	return again(func() error { return unix.Unlinkat(fd, name, flags) })
}
