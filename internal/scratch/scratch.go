// Package scratch makes directories in /tmp that a process tries something in, and tells
// which of them nobody uses any more. The one idea is that a directory is locked by
// whoever made it: the kernel takes the lock away with the process, however that ends, so
// that a lock which can be had is proof that its process is dead.
//
// It knows names and locks. It must not know what is tried, nor remove what others made.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Place is where the directories are: whoever sweeps has to find them, whatever TMPDIR
// was set to for whoever made them.
const Place = "/tmp"

const prefix = "sbxd-probe-"

// Named reports whether a directory in Place has a name that Make gives.
func Named(name string) bool {
	number, ok := strings.CutPrefix(name, prefix)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// Dir is a directory of this process.
type Dir struct {
	Path string
	lock *os.File
}

// Make makes a directory of mode 0700 and locks it.
func Make() (*Dir, error) { return makeIn(Place) }

func makeIn(place string) (*Dir, error) {
	path, err := os.MkdirTemp(place, prefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory to try it in: %w", err)
	}
	f, err := os.Open(path)
	if err == nil {
		err = lock(f, unix.LOCK_EX) // waits for one who just looks whether it is held
	}
	if err != nil {
		_ = f.Close()
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), os.Remove(path))
	}
	return &Dir{Path: path, lock: f}, nil
}

// Remove removes the directory with what is in it.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	_ = d.lock.Close()
	return err
}

// Held reports whether the process that made the directory, open as f, still has it.
func Held(f *os.File) (bool, error) {
	err := lock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// lock locks an open directory, until it is closed.
func lock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
