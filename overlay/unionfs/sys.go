package unionfs

import (
	"errors"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// key is the identity of an object of a layer. Inode numbers are used again, so
// the time of birth belongs to it (0 where a file system does not tell).
type key struct {
	dev, ino uint64
	btime    int64
}

const (
	statMask  = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	// beneath keeps one name within its directory, its file system and itself.
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
)

// statAt describes name in the directory fd, or fd itself if name is "".
func statAt(fd int, name string, st *unix.Statx_t) error {
	flags := statFlags
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	for {
		if err := unix.Statx(fd, name, flags, statMask, st); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func keyOf(st *unix.Statx_t) key {
	k := key{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		k.btime = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return k
}

func kindOf(st *unix.Statx_t) uint32 { return uint32(st.Mode) & unix.S_IFMT }

func isWhiteout(st *unix.Statx_t) bool {
	return kindOf(st) == unix.S_IFCHR && st.Rdev_major == 0 && st.Rdev_minor == 0
}

func isMountRoot(st *unix.Statx_t) bool { return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 }

// openAt opens one name below the directory fd, never through a link, a mount or
// a FIFO that blocks.
func openAt(fd int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: beneath}
	if flags&unix.O_PATH == 0 {
		how.Flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	if flags&(unix.O_CREAT|unix.O_TMPFILE) != 0 {
		how.Mode = uint64(mode)
	}
	how.Flags |= unix.O_NOFOLLOW
	for {
		n, err := unix.Openat2(fd, name, &how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) { // EAGAIN: a rename meanwhile
			return n, err
		}
	}
}

// self is a descriptor as a path, for the calls that take no descriptor, or none
// with O_PATH.
func self(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// selfAt is one name in a directory, for calls that do not follow the last name.
func selfAt(fd int, name string) string { return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name }

// reopen opens again what fd, which may be O_PATH, has open.
func reopen(fd, flags int) (int, error) {
	for {
		n, err := unix.Open(self(fd), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// chmodAt is chmod(2) of one name in a directory, never of what a link there points to.
func chmodAt(dir int, name string, mode uint32) error {
	fd, err := openAt(dir, name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(self(fd), mode)
}

// checkName refuses what is no name; the kernel sends none such.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return unix.ENAMETOOLONG
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return unix.EINVAL
	}
	return nil
}

// status is the answer for err.
func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		switch errno {
		case unix.ENOSYS: // the kernel would never ask again
			return fuse.Status(unix.EOPNOTSUPP)
		case unix.ELOOP: // a link where none was: the layer changed under us
			return fuse.Status(unix.ESTALE)
		}
		return fuse.Status(errno)
	}
	return fuse.EIO
}

// isGone reports whether err says that there is nothing at a name.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// encodeDev is the kernel's encoding of a device number in a request.
func encodeDev(major, minor uint32) uint32 {
	return minor&0xff | major<<8 | minor&^0xff<<12
}

func decodeDev(rdev uint32) int {
	return int(unix.Mkdev(rdev>>8&0xfff, rdev&0xff|rdev>>12&0xfff00))
}
