package safefs

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Time is a file time with the range and precision of the kernel. It compares
// with ==.
type Time struct {
	Sec  int64  `json:"sec"`
	Nsec uint32 `json:"nsec"`
}

// Time returns t as a time.Time.
func (t Time) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// Stat is what statx(2) knows of a file. It compares with ==.
type Stat struct {
	Mode      uint32 // type and permissions, as in st_mode
	UID, GID  uint32
	Nlink     uint32
	Ino       uint64
	Dev       uint64 // as in st_dev
	Rdev      uint64 // of a device, as in st_rdev
	Size      int64
	Mtime     Time
	Ctime     Time
	Btime     Time // zero where the file system does not keep it
	MountID   uint64
	MountRoot bool // the entry is the root of a mount
}

// Type returns the unix.S_IF* bits.
func (s Stat) Type() uint32 { return s.Mode & unix.S_IFMT }

// Perm returns the permission, setuid, setgid and sticky bits.
func (s Stat) Perm() uint32 { return s.Mode & 0o7777 }

// IsDir reports whether it is a directory.
func (s Stat) IsDir() bool { return s.Type() == unix.S_IFDIR }

// IsRegular reports whether it is a regular file.
func (s Stat) IsRegular() bool { return s.Type() == unix.S_IFREG }

// IsSymlink reports whether it is a symbolic link.
func (s Stat) IsSymlink() bool { return s.Type() == unix.S_IFLNK }

// IsWhiteout reports whether it is overlayfs's mark of a deleted name: a
// character device 0:0.
func (s Stat) IsWhiteout() bool { return s.Type() == unix.S_IFCHR && s.Rdev == 0 }

// SameFile reports whether both are one file, now: an inode number may be used
// again after a removal, so the birth time counts too.
func (s Stat) SameFile(o Stat) bool {
	return s.Dev == o.Dev && s.Ino == o.Ino && s.Btime == o.Btime
}

// Lstat describes rel itself; "" and "." are the Dir. A link is not followed.
func (d *Dir) Lstat(rel string) (Stat, error) {
	st, err := d.lstat(rel)
	if err != nil {
		return Stat{}, &fs.PathError{Op: "stat", Path: rel, Err: err}
	}
	return st, nil
}

func (d *Dir) lstat(rel string) (Stat, error) {
	if rel == "" || rel == "." {
		return statAt(d.Fd(), "")
	}
	a, err := d.at(rel)
	if err != nil {
		return Stat{}, err
	}
	defer a.close()
	return statAt(a.fd, a.name)
}

// StatFD describes an open file.
func StatFD(fd int) (Stat, error) { return statAt(fd, "") }

func statAt(fd int, name string) (Stat, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	for {
		err := unix.Statx(fd, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, &x)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Stat{}, err
		}
		return fromStatx(&x), nil
	}
}

func fromStatx(x *unix.Statx_t) Stat {
	s := Stat{
		Mode: uint32(x.Mode), UID: x.Uid, GID: x.Gid, Nlink: x.Nlink, Ino: x.Ino,
		Dev:   unix.Mkdev(x.Dev_major, x.Dev_minor),
		Rdev:  unix.Mkdev(x.Rdev_major, x.Rdev_minor),
		Size:  int64(x.Size),
		Mtime: Time{x.Mtime.Sec, x.Mtime.Nsec}, Ctime: Time{x.Ctime.Sec, x.Ctime.Nsec},
		MountID:   x.Mnt_id,
		MountRoot: x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0,
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		s.Btime = Time{x.Btime.Sec, x.Btime.Nsec}
	}
	return s
}
