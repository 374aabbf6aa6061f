package land

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// baseView lets the decoder of an upper compare with a recorded base. Bytes are
// not recorded: they are read from the project where that is unchanged, and
// compared by digest where one is known. Otherwise they count as different, which
// at worst is a conflict.
type baseView struct {
	base   *Manifest
	tree   *tree
	cursor cursor
	// learned are entries whose bytes were read on the way.
	learned []Node
}

var _ overlay.Base = (*baseView)(nil)

func newBaseView(base *Manifest, t *tree) *baseView {
	return &baseView{base: base, tree: t, cursor: cursor{root: t.dir}}
}

func notThere(op, path string) error { return &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist} }

// Lstat implements overlay.Base.
func (v *baseView) Lstat(path string) (overlay.Entry, error) {
	if path == "" {
		return overlay.Entry{Type: overlay.Dir, Mode: v.tree.stat.Perm()}, nil
	}
	n := v.base.find(path)
	if n == nil {
		return overlay.Entry{}, notThere("stat base", path)
	}
	e := overlay.Entry{
		Type: n.Type, Mode: n.Mode, Size: n.Size, Target: n.Target, Nlink: n.Nlink,
		Ino: n.Ino, MTime: n.MTime, Mount: n.Mount,
	}
	if n.Type == overlay.File {
		if dir := v.unchanged(n); dir != nil {
			attrs, err := userXattrs(dir, baseOf(path))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return e, err
			}
			e.Xattrs = attrs
		}
	}
	return e, nil
}

// unchanged returns the directory of the project that still has n as it was, or
// nil.
func (v *baseView) unchanged(n *Node) *safefs.Dir {
	if n.Unsure {
		return nil
	}
	dir, err := v.cursor.open(n.Path)
	if err != nil {
		return nil
	}
	now, err := look(dir, baseOf(n.Path), n.Path, v.tree.stat.Dev)
	if err != nil || !sameStamp(n, &now) {
		return nil
	}
	return dir
}

// ReadDir implements overlay.Base.
func (v *baseView) ReadDir(path string) ([]string, error) {
	if n := v.base.find(path); path != "" && (n == nil || n.Type != overlay.Dir) {
		return nil, notThere("read base", path)
	}
	return v.base.names(path), nil
}

// SameBytes implements overlay.Base.
func (v *baseView) SameBytes(ctx context.Context, path string, f *os.File) (bool, error) {
	n := v.base.find(path)
	if n == nil || n.Type != overlay.File {
		return false, notThere("read base", path)
	}
	want := n.Digest
	if !want.Known() {
		dir := v.unchanged(n)
		if dir == nil {
			return false, nil
		}
		d, err := digestOf(ctx, dir, baseOf(path), n)
		if gone(err) || unreadable(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		want = d
		l := *n
		l.Digest = d
		v.learned = append(v.learned, l)
		n.Digest = d
	}
	st, err := safefs.StatFD(int(f.Fd()))
	if err != nil {
		return false, err
	}
	have, err := pour(ctx, nil, f, st)
	if errors.Is(err, errMoving) {
		return false, nil
	}
	return err == nil && have == want, err
}
