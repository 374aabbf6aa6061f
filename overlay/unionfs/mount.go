package unionfs

import (
	"cmp"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// MountOptions describe the mount, not what it shows.
type MountOptions struct {
	// Source is what mount tables show in their first column; "" means "sbxd".
	Source string
	// AllowOther lets every process in the user namespace of the mount use it, and
	// in those below; else only those that have the uid of the caller alone.
	AllowOther bool
}

// OpenDevice opens /dev/fuse, for Mount and Serve. The kernel wants it opened in the
// user namespace that mounts.
func OpenDevice() (*os.File, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, mountError("open /dev/fuse", err)
	}
	return os.NewFile(uintptr(fd), "/dev/fuse"), nil
}

// Mount returns a detached mount, without set-id and devices, whose requests go to
// dev, an open /dev/fuse: an O_PATH descriptor that the caller attaches with
// move_mount(2) and closes. The thread needs CAP_SYS_ADMIN in its user namespace.
// Whoever uses the mount waits until Serve answers. Errors are *overlay.MountError.
func Mount(dev *os.File, o MountOptions) (*os.File, error) {
	c, err := mnt.Open("fuse")
	if err != nil {
		return nil, mountError("open file system", err)
	}
	defer func() { _ = c.Close() }()
	set := [][2]string{
		{"source", cmp.Or(o.Source, "sbxd")},
		{"fd", strconv.Itoa(int(dev.Fd()))},
		{"rootmode", "40000"},
		{"user_id", strconv.Itoa(os.Geteuid())},
		{"group_id", strconv.Itoa(os.Getegid())},
		{"max_read", strconv.Itoa(maxWrite)},
	}
	for _, s := range set {
		if err := c.Set(s[0], s[1]); err != nil {
			return nil, mountError("set "+s[0], err)
		}
	}
	flags := []string{"default_permissions"}
	if o.AllowOther {
		flags = append(flags, "allow_other")
	}
	for _, name := range flags {
		if err := c.SetFlag(name); err != nil {
			return nil, mountError("set "+name, err)
		}
	}
	_ = c.Set("subtype", "sbxd") // for people who read mount tables
	fd, err := c.Mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, mountError("create", err)
	}
	return os.NewFile(uintptr(fd), "view"), nil
}

// Settle looks at a view once, after its server answers and before others use it.
// Until then the kernel takes its root for a directory of uid 0, which a user
// namespace may not have, and forbids what writes to it without a look below.
func Settle(view *os.File) error {
	var st unix.Statx_t
	return statAt(int(view.Fd()), "", &st)
}

func mountError(op string, err error) error {
	e := &overlay.MountError{Op: op, Err: err}
	var m *mnt.Error
	if errors.As(err, &m) {
		e.Detail, e.Err = m.Detail, m.Err
	}
	return e
}
