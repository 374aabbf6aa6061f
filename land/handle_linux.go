package land

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
	"golang.org/x/sys/unix"
)

const dirType = overlay.Dir

// handle opens an entry only to name it: exactly this inode, whatever happens to
// the name. A link is refused.
func handle(dir *safefs.Dir, name string) (*os.File, error) {
	h, err := dir.Open(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	st, err := safefs.StatFD(int(h.Fd()))
	if err == nil && st.IsSymlink() {
		err = &fs.PathError{Op: "open", Path: name, Err: unix.ELOOP}
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// chmodHandle sets the mode of what handle opened, by the path that leads to
// exactly that inode (fchmod(2) refuses O_PATH).
func chmodHandle(h *os.File, mode uint32) error {
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", h.Fd()), mode&0o7777)
}

// devOf is the device of a directory; what differs from it is a mount.
func devOf(dir *safefs.Dir) uint64 {
	st, err := dir.Lstat("")
	if err != nil {
		return 0
	}
	return st.Dev
}

// ignoreGone turns "it is not there" into no error.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
