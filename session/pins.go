package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
)

// pinsIn holds, beside the sessions of a uid, sets of placeholders: what a view shows
// below a mask whose path is missing. Sessions with the same rules share a set.
const pinsIn = "pins"

// takes bounds how often a set may vanish under whoever takes hold of it.
const takes = 100

// HoldPins returns the path of a set of placeholders below dir, the directory of a uid's
// own data, and a hold on it: RemovePins leaves the set alone until the file is closed,
// however that comes. A set that is not there yet is made by fill, whole or not at all.
func HoldPins(dir, name string, fill func(*safefs.Dir) error) (path string, hold *os.File, err error) {
	root, err := safefs.OpenReal(dir)
	if err != nil {
		return "", nil, fmt.Errorf("opening the directory of placeholders: %w", err)
	}
	defer root.Close()
	rel := pinsIn + "/" + name
	for range takes {
		hold, err = hold1(root, rel)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err = makePins(root, rel, fill); err != nil {
			break
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("making the placeholders of masks: %w", err)
	}
	return filepath.Join(dir, rel), hold, nil
}

// hold1 locks what is at rel, if it still is there when the lock is had.
func hold1(root *safefs.Dir, rel string) (*os.File, error) {
	f, err := root.Open(rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err = flock(f, unix.LOCK_SH); err == nil {
		var st safefs.Stat
		var mine unix.Stat_t
		if err = unix.Fstat(int(f.Fd()), &mine); err == nil {
			if st, err = root.Lstat(rel); err == nil && st.Ino != mine.Ino {
				err = fs.ErrNotExist // another has taken its place
			}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// makePins makes a set under a name of its own and moves it into place; of two that do
// so at once, the first wins.
func makePins(root *safefs.Dir, rel string, fill func(*safefs.Dir) error) error {
	if err := root.MkdirAll(pinsIn, 0o700); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s/%s%s-%s", pinsIn, making, filepath.Base(rel), NewID())
	if err := root.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	set, err := root.Sub(tmp)
	if err == nil {
		err = fill(set)
		_ = set.Close()
	}
	if err == nil {
		err = root.RenameNoReplace(tmp, root, rel)
	}
	if err != nil {
		_ = root.RemoveAll(tmp)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// RemoveDir removes a directory of a session's user with everything in it, by
// descriptor: it follows no link and enters no mount, and directories of mode 000 are no
// hindrance. One that is gone is no error. ErrBusy: it is a set of placeholders that a
// session holds.
func RemoveDir(path string) error {
	parent, err := safefs.OpenReal(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the parent of %s: %w", path, err)
	}
	defer parent.Close()
	remove := parent.RemoveAll
	if filepath.Base(filepath.Dir(path)) == pinsIn {
		remove = func(name string) error { return removePins(parent, name) }
	}
	if err := remove(filepath.Base(path)); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}

// ArchiveDir moves a directory of a session's user to a name that is not taken, and makes
// that one's parent, which is theirs.
func ArchiveDir(from, to string) error {
	top, err := safefs.OpenReal(filepath.Dir(filepath.Dir(to)))
	if err != nil {
		return fmt.Errorf("archiving %s: %w", from, err)
	}
	defer top.Close()
	parent, err := safefs.OpenReal(filepath.Dir(from))
	if err != nil {
		return fmt.Errorf("archiving %s: %w", from, err)
	}
	defer parent.Close()
	in := filepath.Base(filepath.Dir(to))
	if err := top.Mkdir(in, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("archiving %s: %w", from, err)
	}
	if err := parent.RenameNoReplace(filepath.Base(from), top, in+"/"+filepath.Base(to)); err != nil {
		return fmt.Errorf("archiving %s: %w", from, err)
	}
	return nil
}

// removePins takes the set out of its name first: one that is half removed would be
// taken for whole.
func removePins(parent *safefs.Dir, name string) error {
	f, err := parent.Open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	old := removing + name
	if err := parent.RenameNoReplace(name, parent, old); err != nil {
		return err
	}
	return parent.RemoveAll(old)
}

// flock locks an open file, until it is closed. ErrBusy: somebody else has it.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
	}
}
