package kernel

import (
	"fmt"
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/sbxd/sbxd/internal/mnt"
)

// NestedError says that other file systems are mounted below a lower directory.
// Overlayfs never shows them, and a user namespace may not look beneath a mount
// that it inherited, so the kernel refuses such a lower (EINVAL) unless it is a
// clone, made outside, of the one mount without those below
// (bubblewrap#680; clone_private_mount in fs/namespace.c).
type NestedError struct {
	Points []string // sorted
	Err    error
}

func (e *NestedError) Error() string {
	return fmt.Sprintf("%v: mounted below it: %q; unmount them, or let the system service start the session", e.Err, e.Points)
}

func (e *NestedError) Unwrap() error { return e.Err }

// nested lists the mountpoints below dir in this mount namespace.
func nested(dir *os.File) []string {
	path, err := os.Readlink(mnt.Name(int(dir.Fd())))
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil
	}
	infos, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return i.Mountpoint == path || !strings.HasPrefix(i.Mountpoint, strings.TrimSuffix(path, "/")+"/"), false
	})
	if err != nil {
		return nil
	}
	var out []string
	for _, i := range infos {
		out = append(out, i.Mountpoint)
	}
	return out
}
