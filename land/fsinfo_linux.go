package land

import (
	"errors"
	"strings"

	"github.com/sbxd/sbxd/internal/safefs"
	"golang.org/x/sys/unix"
)

// foldingFS are file systems that may take two names for one by themselves
// (linux/magic.h, fs/ntfs3, fs/smb).
var foldingFS = []int64{
	0x4d44,     // vfat
	0x2011bab0, // exfat
	0x5346544e, // ntfs
	0x7366746e, // ntfs3
	0xff534d42, // cifs
	0xfe534d42, // smb2
}

// casefoldFlag is FS_CASEFOLD_FL of linux/fs.h: the directory ignores case.
const casefoldFlag = 0x40000000

// ignoresCase reports whether a directory takes names of another case for the
// same one.
func ignoresCase(dir *safefs.Dir) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir.Fd(), &fs); err != nil {
		return false, err
	}
	for _, magic := range foldingFS {
		if int64(fs.Type) == magic { //nolint:unconvert // its type differs between architectures
			return true, nil
		}
	}
	f, err := dir.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return false, nil // who may not read it cannot tell; a fault shows as a name taken
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&casefoldFlag != 0, nil
}

// userXattrs returns the user.* attributes of an entry, but for marks of
// overlays; none where the file system keeps none.
func userXattrs(dir *safefs.Dir, name string) (map[string][]byte, error) {
	out := map[string][]byte{}
	names, err := dir.Listxattr(name)
	if err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
			return nil, nil
		}
		return nil, err
	}
	for _, n := range names {
		if !strings.HasPrefix(n, "user.") || strings.HasPrefix(n, "user.overlay.") {
			continue
		}
		v, err := dir.Getxattr(name, n)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[n] = v
	}
	return out, nil
}

// syncFS makes all that was written to the file system of dir durable.
func syncFS(dir *safefs.Dir) error {
	f, err := dir.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
