package unionfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// do does one operation below root; side is 0 for the plain directory.
func (d *differ) do(side int, root string, what int, p, q string, n, slot int) (string, error) {
	a, b := root+"/"+p, root+"/"+q
	text := strings.Repeat(q+"-", n%400)
	switch what {
	case 0, 1:
		return "", write(a, os.O_CREATE|os.O_TRUNC, text)
	case 2:
		return "", write(a, os.O_APPEND, text)
	case 3:
		return "", unix.Mkdir(a, uint32([]int{0o755, 0o700, 0o1777}[n%3]))
	case 4:
		return "", unix.Unlink(a)
	case 5:
		return "", unix.Rmdir(a)
	case 6, 7:
		return "", unix.Rename(a, b)
	case 8:
		return "", unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	case 9:
		return "", unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE)
	case 10:
		return "", unix.Link(a, b)
	case 11:
		return "", unix.Symlink(d.target(q), a)
	case 12:
		return "", unix.Truncate(a, int64(n%5000))
	case 13:
		return "", unix.Lsetxattr(a, "user.k"+strconv.Itoa(n%2), []byte(q), 0)
	case 14:
		return "", unix.Lremovexattr(a, "user.k0")
	case 15:
		return listing1(a)
	case 16, 17:
		return d.stat(a)
	case 18:
		return "", unix.UtimesNanoAt(unix.AT_FDCWD, a, []unix.Timespec{{Sec: 1}, {Sec: int64(n)}}, unix.AT_SYMLINK_NOFOLLOW)
	case 19:
		return "", chmod1(a, n)
	case 20:
		return read1(a)
	case 21: // another process
		out, err := exec.Command("/bin/cat", a).Output()
		if err != nil {
			return "", errors.New("cat")
		}
		return string(out), nil
	case 22:
		return "", map1(a)
	case 23:
		return "", d.openSlot(side, slot, a, n)
	default:
		return d.useSlot(side, slot, what, n, text)
	}
}

func write(path string, flags int, text string) error {
	fd, err := unix.Open(path, flags|unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// links is the number of names, 0 after a remount: which names of a file of the lower
// were removed is then not known any more, and they are counted.
func (d *differ) links(st *unix.Stat_t) uint64 {
	if d.remounted {
		return 0
	}
	return st.Nlink
}

func (d *differ) stat(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Sprintf("%o", st.Mode), nil
	}
	return fmt.Sprintf("%o %d %d", st.Mode, st.Size, d.links(&st)), nil
}

func listing1(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	unix.Close(fd)
	list, err := os.ReadDir(path)
	out := ""
	for _, e := range list {
		out += fmt.Sprintf("%q %s ", e.Name(), e.Type())
	}
	return out, err
}

func read1(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b := make([]byte, 8192)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}

// chmod1 sets no set-id bits: FUSE takes them away when a process writes that has
// CAP_FSETID in a user namespace alone (fuse_file_write_iter, fs/fuse/file.c), as this
// one.
func chmod1(path string, n int) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	mode := uint32([]int{0o644, 0o700, 0o1755, 0o444, 0o711}[n%5])
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= 0o700
	}
	return unix.Chmod(path, mode)
}

func map1(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	m, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m[len(m)/2] = '#'
	return unix.Munmap(m)
}

// openSlot opens a file that later operations use, whatever becomes of its name.
func (d *differ) openSlot(side, slot int, path string, n int) error {
	if f := d.open[slot][side]; f != nil {
		f.Close()
		d.open[slot][side] = nil
	}
	flags := []int{unix.O_RDONLY, unix.O_RDWR, unix.O_RDWR | unix.O_APPEND, unix.O_RDWR | unix.O_CREAT}[n%4]
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	d.open[slot][side] = os.NewFile(uintptr(fd), "slot")
	return nil
}

func (d *differ) useSlot(side, slot, what, n int, text string) (string, error) {
	f := d.open[slot][side]
	if f == nil || d.open[slot][1] == nil {
		return "", nil
	}
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", err
	}
	switch what {
	case 24, 25:
		b := make([]byte, 8192)
		n, err := unix.Pread(fd, b, int64(n%100))
		return fmt.Sprintf("%d %d %o %q", st.Size, d.links(&st), st.Mode, b[:max(n, 0)]), err
	case 26:
		_, err := unix.Pwrite(fd, []byte(text), int64(n%3000))
		return "", err
	case 27:
		return "", unix.Ftruncate(fd, int64(n%6000))
	case 28:
		return "", unix.Fchmod(fd, uint32([]int{0o600, 0o644}[n%2]))
	}
	off, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	if off == st.Size {
		return "end", err
	}
	return "hole", err
}

func (d *differ) closeAll() {
	for i := range d.open {
		for side := range d.open[i] {
			if f := d.open[i][side]; f != nil {
				f.Close()
				d.open[i][side] = nil
			}
		}
	}
}
