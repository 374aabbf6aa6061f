package land

import (
	"context"
	"errors"
	"io/fs"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// matches reports whether the object name of dir is exactly the tree that want
// lists, and not one byte or entry more. The inode of each entry, its type, size,
// times and target are compared; bytes where a digest is known. A rename moves
// the ctime of what is renamed, so that of the top is left out; below it the
// kernel's ctime tells of every change.
//
// The second result lists the tree as it is.
func matches(ctx context.Context, dir *safefs.Dir, name string, want []Node) (bool, []Node, error) {
	m := matcher{ctx: ctx, want: want}
	w := walker{ctx: ctx, dev: devOf(dir), visit: m.visit}
	err := w.entry(dir, name, want[0].Path, 0)
	switch {
	case errors.Is(err, errDifferent), errors.Is(err, fs.ErrNotExist):
		return false, nil, nil
	case err != nil:
		return false, nil, err
	}
	return len(m.seen) == len(want), m.seen, nil
}

var errDifferent = errors.New("different")

type matcher struct {
	ctx  context.Context
	want []Node
	seen []Node
}

func (m *matcher) visit(dir *safefs.Dir, name string, n *Node) error {
	i := len(m.seen)
	m.seen = append(m.seen, *n)
	if i >= len(m.want) || m.want[i].Path != n.Path || !sameNode(&m.want[i], n, i == 0) {
		return errDifferent
	}
	if !m.want[i].Digest.Known() {
		return nil
	}
	d, err := digestOf(m.ctx, dir, name, n)
	if gone(err) || (err == nil && d != m.want[i].Digest) {
		return errDifferent
	}
	m.seen[i].Digest = d
	return err
}

// sameNode compares one entry with what it should be.
func sameNode(want, got *Node, top bool) bool {
	if want.Type != got.Type || want.Ino != got.Ino || got.Mount {
		return false
	}
	switch want.Type {
	case overlay.Symlink:
		return want.Target == got.Target
	case overlay.Dir:
		return want.Mode == got.Mode
	}
	if want.Mode != got.Mode || want.Size != got.Size || want.MTime != got.MTime {
		return false
	}
	return top || want.Digest.Known() || want.CTime == got.CTime
}
