package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
)

// Local is the Host of a process that holds the lock of the state root, so that no
// daemon works on it: a sweep by hand, or one at the daemon's start.
type Local struct {
	Store *session.Store
	// As removes a directory as another uid; a system's state root needs it.
	As func(ctx context.Context, uid int, path string) error
}

var _ Host = Local{}

// Lock always succeeds: the lock of the state root is enough.
func (Local) Lock(session.ID) (func(), bool) { return func() {}, true }

// Load reads a record.
func (l Local) Load(id session.ID) (session.Record, error) { return l.Store.Load(id) }

// Save writes a record.
func (l Local) Save(r session.Record) error { return l.Store.Save(r) }

// Remove removes a directory below the state root.
func (l Local) Remove(ctx context.Context, uid int, path string) error {
	if uid != os.Geteuid() {
		if l.As == nil {
			return fmt.Errorf("%s belongs to uid %d, and there is no way to act for it", path, uid)
		}
		return l.As(ctx, uid, path)
	}
	root, rest, err := l.open(path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return root.RemoveAll(rest)
}

// Archive renames a directory below the state root, owner and content untouched.
func (l Local) Archive(_ context.Context, uid int, from, to string) error {
	root, oldName, err := l.open(from)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	newName, ok := strings.CutPrefix(to, l.Store.Path()+"/")
	if !ok {
		return fmt.Errorf("%s is not below the state root", to)
	}
	if err := makeFor(root, filepath.Dir(newName), uid); err != nil {
		return err
	}
	return root.RenameNoReplace(oldName, root, newName)
}

// makeFor makes a directory in one of uid's own and gives it to uid. It is given away by
// descriptor, and only while it is ours: uid can put another thing in its place.
func makeFor(root *safefs.Dir, name string, uid int) error {
	if err := root.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	d, err := root.Sub(name)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if st, err := d.Lstat(""); err != nil || int(st.UID) != os.Geteuid() {
		return err
	}
	return unix.Fchownat(d.Fd(), "", uid, -1, unix.AT_EMPTY_PATH)
}

func (l Local) open(path string) (*safefs.Dir, string, error) {
	rest, ok := rel(l.Store.Path(), path)
	if !ok {
		return nil, "", fmt.Errorf("%s is not below the state root", path)
	}
	root, err := safefs.OpenReal(l.Store.Path())
	return root, rest, err
}
