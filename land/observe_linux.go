package land

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
	"golang.org/x/sys/unix"
)

// What stands in the way of a path.
const (
	blockMissing = "missing"
	blockMount   = "mount"
	blockDenied  = "directory that may not be entered"
)

// cursor reaches entries of a tree in path order; the directory looked at last
// stays open.
type cursor struct {
	root *safefs.Dir
	dir  *safefs.Dir
	at   string
}

// open returns the directory of path, valid until the next call.
func (c *cursor) open(path string) (*safefs.Dir, error) {
	dir := parentOf(path)
	if dir == "" {
		return c.root, nil
	}
	if c.dir != nil && c.at == dir {
		return c.dir, nil
	}
	d, err := c.root.Sub(dir)
	if err != nil {
		return nil, err
	}
	c.close()
	c.dir, c.at = d, dir
	return d, nil
}

func (c *cursor) close() {
	if c.dir != nil {
		c.dir.Close()
		c.dir = nil
	}
}

// observer looks at the project where a changeset touches it.
type observer struct {
	ctx    context.Context
	tree   *tree
	cursor cursor
	base   *Manifest
	now    *Now
	// learned are entries of the base whose bytes were read, unchanged as they
	// are: they can be told from an edit later, when the marks have moved.
	learned []Node
}

// observe returns the project's side of every item.
func observe(ctx context.Context, t *tree, items []Item, opaque []string, base *Manifest) (*Now, []Node, error) {
	o := &observer{
		ctx: ctx, tree: t, cursor: cursor{root: t.dir}, base: base,
		now: &Now{
			Root:  fromStat("", t.stat, t.stat.Dev),
			Nodes: map[string]*Node{}, Blocked: map[string]Block{}, Folds: map[string]bool{}, Alias: map[string]string{},
		},
	}
	defer o.cursor.close()
	for i := range items {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err := o.item(&items[i]); err != nil {
			return nil, nil, fmt.Errorf("look at project: %s: %w", Quote(items[i].Path), err)
		}
	}
	for _, d := range opaque {
		if err := o.under(d); err != nil {
			return nil, nil, fmt.Errorf("look at project: %s: %w", Quote(d), err)
		}
	}
	return o.now, o.learned, nil
}

// item looks at one path, and at all below it if that would go.
func (o *observer) item(it *Item) error {
	dir, err := o.enter(it.Path)
	if dir == nil || err != nil {
		return err
	}
	n, ok := o.now.Nodes[it.Path]
	if !ok {
		name := baseOf(it.Path)
		seen, err := look(dir, name, it.Path, o.tree.stat.Dev)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if it.Op == overlay.Add {
			if real, err := o.alias(dir, it.Path); err != nil || real != "" {
				o.now.Alias[it.Path] = real
				return err
			}
		}
		n = &seen
		o.now.Nodes[it.Path] = n
	}
	if err := o.read(dir, n, it); err != nil {
		return err
	}
	if n.Type == overlay.Dir && !n.Mount && (it.Op == overlay.Delete || it.Type != overlay.Dir) {
		return o.under(it.Path)
	}
	return nil
}

// enter opens the directory of path, or records why there is none.
func (o *observer) enter(path string) (*safefs.Dir, error) {
	parent := parentOf(path)
	if _, blocked := o.now.Blocked[parent]; blocked {
		return nil, nil
	}
	dir, err := o.cursor.open(path)
	if err == nil {
		return dir, o.fold(dir, parent)
	}
	block, e := o.blocker(parent)
	if e != nil || block.What == "" {
		return nil, errors.Join(err, e)
	}
	o.now.Blocked[parent] = block
	return nil, nil
}

// blocker finds the first ancestor that is no directory to go through.
func (o *observer) blocker(dir string) (Block, error) {
	names := strings.Split(dir, "/")
	for i := range names {
		at := strings.Join(names[:i+1], "/")
		st, err := o.tree.dir.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Block{at, blockMissing}, nil
		case errors.Is(err, unix.EXDEV):
			return Block{at, blockMount}, nil
		case errors.Is(err, fs.ErrPermission):
			return Block{parentOf(at), blockDenied}, nil
		case err != nil:
			return Block{}, err
		case st.MountRoot || st.Dev != o.tree.stat.Dev:
			return Block{at, blockMount}, nil
		case !st.IsDir():
			return Block{at, typeOf(st).String()}, nil
		}
	}
	return Block{}, nil
}

// read reads the bytes and attributes of a project's entry where the comparison
// needs them.
func (o *observer) read(dir *safefs.Dir, n *Node, it *Item) error {
	if n.Type != overlay.File || n.Digest.Known() {
		return nil
	}
	b := o.base.find(n.Path)
	same := b != nil && !b.Unsure && sameStamp(b, n)
	if it.Op != overlay.Delete && it.Type == overlay.File {
		attrs, err := userXattrs(dir, baseOf(n.Path))
		if err != nil {
			return err
		}
		n.Xattrs = attrs
	}
	wanted := it.Op != overlay.Delete && it.Type == overlay.File && it.Size == n.Size
	known := b != nil && b.Digest.Known() && !same && b.Size == n.Size
	if same && b.Digest.Known() {
		n.Digest = b.Digest
		return nil
	}
	if !wanted && !known {
		return nil
	}
	d, err := digestOf(o.ctx, dir, baseOf(n.Path), n)
	if gone(err) {
		o.now.Moving = append(o.now.Moving, n.Path)
		return nil
	}
	if unreadable(err) {
		return nil // the marks must do
	}
	if err != nil {
		return err
	}
	if n.Digest = d; same {
		l := *b
		l.Digest = d
		o.learned = append(o.learned, l)
	}
	return nil
}

// under looks at all below a directory of the project.
func (o *observer) under(p string) error {
	w := walker{ctx: o.ctx, dev: o.tree.stat.Dev, visit: func(_ *safefs.Dir, _ string, n *Node) error {
		if _, ok := o.now.Nodes[n.Path]; !ok {
			seen := *n
			o.now.Nodes[n.Path] = &seen
		}
		return nil
	}}
	dir, err := o.enter(p)
	if dir == nil || err != nil {
		return err
	}
	err = w.below(dir, baseOf(p), p, strings.Count(p, "/"))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // it is no directory (any more): nothing below it is hidden
	case errors.Is(err, unix.EXDEV):
		return nil // a mount: the entry itself says so
	}
	return err
}

// fold notes once whether the directory at p ignores case.
func (o *observer) fold(dir *safefs.Dir, p string) error {
	if _, ok := o.now.Folds[p]; ok {
		return nil
	}
	folds, err := ignoresCase(dir)
	o.now.Folds[p] = folds
	return err
}

// alias returns the path by which the file system knows an entry that was asked
// for as path, if that is another one.
func (o *observer) alias(dir *safefs.Dir, path string) (string, error) {
	if !o.now.Folds[parentOf(path)] {
		return "", nil
	}
	entries, err := dir.ReadDir("")
	if err != nil {
		return "", err
	}
	name := baseOf(path)
	if slices.ContainsFunc(entries, func(e safefs.Entry) bool { return e.Name == name }) {
		return "", nil
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name, name) {
			return join(parentOf(path), e.Name), nil
		}
	}
	return path, nil // a fold that we do not know: no other name can be told from it
}
