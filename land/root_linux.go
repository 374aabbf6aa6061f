package land

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
	"golang.org/x/sys/unix"
)

// Root names one directory for good, whatever its path is by now.
type Root struct {
	Dev   uint64      `json:"dev"`
	Ino   uint64      `json:"ino"`
	BTime safefs.Time `json:"btime"` // zero where the file system keeps none
	// Boot is the boot in which Dev was seen: some file systems get another device
	// number at each mount.
	Boot string `json:"boot"`
}

// Same reports whether both name one directory. Device numbers are compared
// within one boot, or where there is no birth time.
func (r Root) Same(o Root) bool {
	if r.Ino != o.Ino || r.BTime != o.BTime {
		return false
	}
	return r.Dev == o.Dev || (r.Boot != o.Boot && r.BTime != safefs.Time{})
}

// tree is the open project: nothing is reached but below its descriptor, through
// no link and into no other mount.
type tree struct {
	dir  *safefs.Dir
	path string
	stat safefs.Stat
	id   Root
}

// openTree opens the project by its canonical path.
func openTree(path string) (*tree, error) {
	dir, err := safefs.OpenReal(path)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return nil, &RefusedError{What: "project " + Quote(path), Why: "its path leads through a link now", Next: "start a new session"}
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil, &RefusedError{What: "project " + Quote(path), Why: "it is not there", Next: "put it back, or take the files out with cp"}
		}
		return nil, fmt.Errorf("open project: %w", err)
	}
	st, err := dir.Lstat("")
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("open project: %w", err)
	}
	return &tree{dir: dir.OneMount(), path: path, stat: st, id: Root{Dev: st.Dev, Ino: st.Ino, BTime: st.Btime, Boot: bootID()}}, nil
}

func (t *tree) close() { _ = t.dir.Close() }

// mustBe refuses a project that is not the one that was recorded.
func (t *tree) mustBe(want Root) error {
	if t.id.Same(want) {
		return nil
	}
	return &RefusedError{
		What: "project " + Quote(t.path), Why: "another directory took its place since the session began",
		Next: "put the first one back, or start a new session",
	}
}

// bootID returns the kernel's id of this boot.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Clock returns the clock that the kernel takes file times from. What is changed
// after the call has a ctime that is not earlier.
func Clock() safefs.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return safefs.Time{}
	}
	return safefs.Time{Sec: ts.Sec, Nsec: uint32(ts.Nsec)} //nolint:gosec // below one second
}

// before reports whether a is earlier than b.
func before(a, b safefs.Time) bool { return a.Sec < b.Sec || (a.Sec == b.Sec && a.Nsec < b.Nsec) }

// typeOf returns the kind of what was looked at. A whiteout is a Device.
func typeOf(st safefs.Stat) overlay.Type {
	switch st.Type() {
	case unix.S_IFREG:
		return overlay.File
	case unix.S_IFDIR:
		return overlay.Dir
	case unix.S_IFLNK:
		return overlay.Symlink
	case unix.S_IFIFO:
		return overlay.FIFO
	case unix.S_IFSOCK:
		return overlay.Socket
	default:
		return overlay.Device
	}
}
