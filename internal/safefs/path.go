package safefs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// maxStep is the longest path given to one system call, in bytes: PATH_MAX less
// the NUL.
const maxStep = unix.PathMax - 1

// check refuses what no name below a Dir can be. "" and "." are the Dir itself.
func check(rel string) error {
	if strings.IndexByte(rel, 0) >= 0 || strings.HasPrefix(rel, "/") {
		return ErrPath
	}
	for rest := rel; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if name == ".." || len(name) > unix.NAME_MAX {
			return ErrPath
		}
	}
	return nil
}

// cut splits a path into a head that one system call takes and the rest. A head
// that cannot be cut is returned whole; the kernel refuses it.
func cut(path string) (head, rest string) {
	if path == "" {
		return ".", ""
	}
	if len(path) <= maxStep {
		return path, ""
	}
	i := strings.LastIndexByte(path[:maxStep], '/')
	if i <= 0 {
		return path, ""
	}
	return path[:i+1], strings.TrimLeft(path[i+1:], "/")
}

// at is a parent descriptor and the last name below it.
type at struct {
	fd    int
	name  string
	owned bool
}

func (a at) close() {
	if a.owned {
		_ = unix.Close(a.fd)
	}
}

// at opens the parent of rel. The name is never empty, "." or "..", so the
// *at calls act on the entry itself.
func (d *Dir) at(rel string) (at, error) {
	if err := check(rel); err != nil {
		return at{}, err
	}
	dir, name := "", strings.TrimRight(rel, "/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, name = name[:i], name[i+1:]
	}
	if name == "" || name == "." {
		return at{}, ErrPath
	}
	if dir == "" {
		return at{fd: d.Fd(), name: name}, nil
	}
	fd, err := d.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return at{}, err
	}
	return at{fd: fd, name: name, owned: true}, nil
}
