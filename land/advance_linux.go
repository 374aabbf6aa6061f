package land

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sbxd/sbxd/overlay"
)

// advance makes a session's base follow what was landed of it: the next diff
// shows only what is new. base is the one in dir, if it is at hand.
func advance(ctx context.Context, t *tree, dir string, base *Manifest, ops []Op) error {
	if dir == "" || len(ops) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, ManifestFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the session is gone
		}
		return err
	}
	if base == nil {
		var err error
		if base, err = loadBase(dir); err != nil {
			return err
		}
	}
	c := cursor{root: t.dir}
	defer c.close()
	p := &patch{}
	for i := range ops {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := follow(p, base, &c, t.stat.Dev, &ops[i]); err != nil {
			return err
		}
	}
	return addPatch(dir, p)
}

// follow adds what one step did to a patch.
func follow(p *patch, base *Manifest, c *cursor, dev uint64, op *Op) error {
	switch {
	case op.Kind == Chmod:
		n := op.New[0]
		if b := base.find(op.Path); b != nil && !sameStamp(b, &op.Old[0]) {
			// The host's bytes stay the host's: only the mode was the session's.
			n = *b
			n.Mode = op.New[0].Mode
		} else if b != nil {
			n.Digest = b.Digest
		}
		seen, err := seal(c, dev, n)
		p.Here = append(p.Here, seen)
		return err
	case op.Kind == Settle && len(op.New) > 0:
		n := op.New[0]
		n.Unsure, n.Xattrs = false, nil
		p.Here = append(p.Here, n)
		return nil
	}
	p.Gone = append(p.Gone, op.Path)
	for i := range op.New {
		n := op.New[i]
		n.Xattrs = nil
		if i == 0 && op.OtherMode {
			n.Mode, n.CTime.Sec = op.Mode, 0
		}
		seen, err := seal(c, dev, n)
		if err != nil {
			return err
		}
		p.Here = append(p.Here, seen)
	}
	return nil
}

// seal gives an entry the ctime that it has in the project, if it is still there
// as it is meant to be.
func seal(c *cursor, dev uint64, n Node) (Node, error) {
	dir, err := c.open(n.Path)
	if err != nil {
		return n, ignoreNotHere(err)
	}
	now, err := look(dir, baseOf(n.Path), n.Path, dev)
	if err != nil {
		return n, ignoreNotHere(err)
	}
	n.Mount = now.Mount
	if n.Type == overlay.Dir || (now.Ino == n.Ino && now.Size == n.Size && now.MTime == n.MTime && now.Mode == n.Mode) {
		n.Ino, n.CTime = now.Ino, now.CTime
	}
	return n, nil
}

func ignoreNotHere(err error) error {
	if notHere(err) {
		return nil
	}
	return err
}
