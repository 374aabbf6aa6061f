package land

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
	"golang.org/x/sys/unix"
)

const (
	// maxNodes bounds one tree: more than any checkout, less than fills memory.
	maxNodes = overlay.MaxEntries
	// maxDepth bounds nesting, and with it the descriptors a walk holds.
	maxDepth = overlay.MaxDepth
)

// walker visits a tree in path order (overlay.ComparePaths), parents first.
type walker struct {
	ctx   context.Context
	dev   uint64 // the device of the root; another one is a mount
	skip  func(path string) bool
	visit func(dir *safefs.Dir, name string, n *Node) error
	// denied takes directories that this user may not read for empty ones.
	denied bool
	seen   int
}

// entry visits the entry name of dir, whose path is p, and all below it. That it
// is not there gives fs.ErrNotExist.
func (w *walker) entry(dir *safefs.Dir, name, p string, depth int) error {
	n, err := look(dir, name, p, w.dev)
	if err != nil {
		return err
	}
	if w.seen++; w.seen > maxNodes {
		return fmt.Errorf("walk %s: %w", Quote(p), overlay.ErrTooMany)
	}
	if err := w.visit(dir, name, &n); err != nil {
		return err
	}
	if n.Type != overlay.Dir || n.Mount {
		return nil
	}
	return w.below(dir, name, p, depth)
}

// below visits what is in the directory name of dir; an empty name is dir itself.
func (w *walker) below(dir *safefs.Dir, name, p string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("walk %s: %w", Quote(p), overlay.ErrTooDeep)
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	sub := dir
	if name != "" {
		var err error
		if sub, err = dir.Sub(name); err != nil {
			return err
		}
		defer sub.Close()
	}
	entries, err := sub.ReadDir("")
	if w.denied && unreadable(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		q := join(p, e.Name)
		if w.skip != nil && w.skip(q) {
			continue
		}
		err := w.entry(sub, e.Name, q, depth+1)
		if errors.Is(err, fs.ErrNotExist) || (w.denied && unreadable(err)) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look describes the entry name of dir. A link that becomes something else while
// it is read is looked at again.
func look(dir *safefs.Dir, name, p string, dev uint64) (Node, error) {
	for {
		st, err := dir.Lstat(name)
		if err != nil {
			return Node{}, err
		}
		n := fromStat(p, st, dev)
		if n.Type != overlay.Symlink {
			return n, nil
		}
		n.Target, err = dir.Readlink(name)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return n, err
	}
}

// nodesAt lists the tree at the entry name of dir: itself first, then all below
// it in path order.
func nodesAt(ctx context.Context, dir *safefs.Dir, name, p string, dev uint64) ([]Node, error) {
	var out []Node
	w := walker{ctx: ctx, dev: dev, visit: func(_ *safefs.Dir, _ string, n *Node) error {
		out = append(out, *n)
		return nil
	}}
	err := w.entry(dir, name, p, 0)
	return out, err
}
