package land

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sbxd/sbxd/internal/safefs"
)

// skew is how far a ctime may lie ahead of our clock before it is taken for that
// of another clock (a file server's) rather than for a change of this moment.
const skew = 2 // seconds

// Capture records the project as a session's base in the directory out. started
// is Clock before the view was mounted. It only reads names and attributes, so it
// runs beside the start and beside the session.
func Capture(ctx context.Context, project, out string, started safefs.Time) error {
	t, err := openTree(project)
	if err != nil {
		return err
	}
	defer t.close()
	m, err := capture(ctx, t, started)
	if err != nil {
		return fmt.Errorf("capture base of %s: %w", Quote(project), err)
	}
	return writeManifest(out, m)
}

func capture(ctx context.Context, t *tree, started safefs.Time) (*Manifest, error) {
	m := &Manifest{Root: t.id, Started: started, RootUnsure: unsure(t.stat.Ctime, started)}
	w := walker{ctx: ctx, dev: t.stat.Dev, skip: ours, visit: func(_ *safefs.Dir, _ string, n *Node) error {
		n.Unsure = unsure(n.CTime, started)
		m.Nodes = append(m.Nodes, *n)
		return nil
	}}
	w.denied = true
	err := w.below(t.dir, "", "", 0)
	return m, err
}

// unsure reports whether an entry may have changed since started.
func unsure(ctime, started safefs.Time) bool {
	return !before(ctime, started) && ctime.Sec <= Clock().Sec+skew
}

// ours reports whether p is our own directory in a project.
func ours(p string) bool { return p == stateDir || below(p, stateDir) }

// stateDir holds staged and undo objects of a project that lies on another file
// system than the state root.
const stateDir = ".sbxd"

// unreadable reports whether err only says that this user may not look inside:
// then neither could the session.
func unreadable(err error) bool { return errors.Is(err, fs.ErrPermission) }
