package probe

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fsNames are the file systems that a state root is likely to lie on; statfs(2) and
// include/uapi/linux/magic.h.
var fsNames = map[int64]string{
	0x01021994: "tmpfs",
	0x00c36400: "ceph",
	0x2fc12fc1: "zfs",
	0x4d44:     "vfat",
	0x5346544e: "ntfs",
	0x58465342: "xfs",
	0x65735546: "fuse",
	0x6969:     "nfs",
	0x73717368: "squashfs",
	0x794c7630: "overlay",
	0x9123683e: "btrfs",
	0xca451a4e: "bcachefs",
	0xef53:     "ext4",
	0xf15f:     "ecryptfs",
	0xf2f52010: "f2fs",
	0xfe534d42: "smb2",
}

// FS is the file system that a directory lies on.
type FS struct {
	Type  string // by name, or its magic number in hexadecimal
	Free  uint64 // bytes that an ordinary user may still write
	Files uint64 // inodes that are free; 0 where the file system does not count them
}

// FSOf describes the file system of path.
func FSOf(path string) (FS, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return FS{}, fmt.Errorf("ask for the file system of %s: %w", path, err)
	}
	name, ok := fsNames[st.Type]
	if !ok {
		name = fmt.Sprintf("%#x", st.Type)
	}
	return FS{Type: name, Free: st.Bavail * uint64(st.Bsize), Files: st.Ffree}, nil
}

// Feature is something that a view's upper directory, or a landing, needs of a file
// system.
type Feature struct {
	Name string
	For  string // what stops working without it
	try  func(dir string) error
}

// Features are tried by Feature.Try, in this order.
var Features = []Feature{
	{"user attributes", "overlayfs marks replaced directories with them", tryXattr},
	{"whiteouts", "a view records deletions with them", tryWhiteout},
	{"exchanging renames", "a landing replaces files with them", tryExchange},
	{"renames that do not replace", "a landing creates files with them", tryNoReplace},
	{"nameless files", "overlayfs copies files with them", tryTmpfile},
	{"file times of this clock", "changes are told by them", tryTimes},
}

// Try tries the feature in a new directory below dir, which it removes.
func (f Feature) Try(dir string) error {
	tmp, err := os.MkdirTemp(dir, ".probe-")
	if err != nil {
		return fmt.Errorf("make a directory for the probe: %w", err)
	}
	return errors.Join(f.try(tmp), os.RemoveAll(tmp))
}

func touch(path string) error { return os.WriteFile(path, nil, 0o600) }

func tryXattr(dir string) error {
	if err := unix.Setxattr(dir, "user.overlay.opaque", []byte("y"), 0); err != nil {
		return fmt.Errorf("set an attribute: %w", err)
	}
	return nil
}

func tryWhiteout(dir string) error {
	// Needs no privilege since Linux 5.8.
	if err := unix.Mknod(dir+"/w", unix.S_IFCHR, 0); err != nil {
		return fmt.Errorf("make a character device 0:0: %w", err)
	}
	return nil
}

func tryExchange(dir string) error { return tryRename(dir, unix.RENAME_EXCHANGE, true) }

func tryNoReplace(dir string) error { return tryRename(dir, unix.RENAME_NOREPLACE, false) }

func tryRename(dir string, flags uint, both bool) error {
	if err := touch(dir + "/a"); err != nil {
		return err
	}
	if both {
		if err := os.Mkdir(dir+"/b", 0o700); err != nil {
			return err
		}
	}
	if err := unix.Renameat2(unix.AT_FDCWD, dir+"/a", unix.AT_FDCWD, dir+"/b", flags); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	return nil
}

func tryTmpfile(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open one: %w", err)
	}
	return unix.Close(fd)
}

// tryTimes compares the time of a new file with our clock: another machine's clock
// (a network file system) may differ.
func tryTimes(dir string) error {
	const most = 2 * time.Second // FAT counts in steps of two
	if err := touch(dir + "/t"); err != nil {
		return err
	}
	fi, err := os.Stat(dir + "/t")
	if err != nil {
		return err
	}
	if d := time.Since(fi.ModTime()).Abs(); d > most {
		return fmt.Errorf("a new file is off by %v", d.Round(time.Second))
	}
	return nil
}
