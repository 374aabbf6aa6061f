package overlaytest

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// put1 opens, writes and closes, each by one system call. FIFOs do not block.
func put1(path string, flags int, text string) error {
	fd, err := unix.Open(path, flags|unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	if e := unix.Close(fd); err == nil {
		err = e
	}
	return err
}

// tmp1 gives a file without a name the name path.
func tmp1(path, text string) error {
	fd, err := unix.Open(dirOf(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
}

// dirOf is path.Dir without cleaning.
func dirOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

func read1(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	size := st.Size
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size = 0 // a directory's size is the file system's own affair
	}
	return fmt.Sprintf("%o %d %q", st.Mode, size, b[:max(n, 0)]), err
}

func list1(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // a FIFO would block
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, err := f.ReadDir(-1)
	if err != nil {
		return "", errno(err)
	}
	slices.SortFunc(names, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	out := ""
	for _, n := range names {
		out += fmt.Sprintf("%q %s ", n.Name(), n.Type())
	}
	return out, nil
}

// removeTree is os.RemoveAll, which opens the parent and blocks if that is a FIFO.
func removeTree(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(dirOf(path), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return errno(os.RemoveAll(path))
}

// errno strips the path, which differs between roots.
func errno(err error) error {
	switch e := err.(type) { //nolint:errorlint // os wraps exactly once
	case *os.PathError:
		return e.Err
	case *os.SyscallError:
		return e.Err
	}
	return err
}
