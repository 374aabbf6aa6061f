package land

import (
	"context"
	"errors"
	"fmt"

	"github.com/sbxd/sbxd/overlay"
	"golang.org/x/sys/unix"
)

// hashBelow is the size up to which the bytes of a file that is to go are read
// beforehand, so that what came out can be compared byte by byte. Of larger ones
// the kernel's marks must do: size, mtime and inode.
const hashBelow = 64 << 20

// sealPlan reads what the plan will take out of the project. Below a moved
// directory the kernel's ctime tells of every later change, but for one within
// the same tick of its clock: such young files are read, too.
func sealPlan(ctx context.Context, t *tree, p *Plan) error {
	c := cursor{root: t.dir}
	defer c.close()
	started := Clock()
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Kind != Replace && op.Kind != Remove {
			continue
		}
		for j := range op.Old {
			n := &op.Old[j]
			if n.Type != overlay.File || n.Digest.Known() || n.Size > hashBelow {
				continue
			}
			// A step that moves another name of the file moves its ctime, too.
			if j > 0 && !near(n.CTime, started) && n.Nlink == 1 {
				continue
			}
			if err := sealNode(ctx, &c, op, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func sealNode(ctx context.Context, c *cursor, op *Op, n *Node) error {
	dir, err := c.open(n.Path)
	if err == nil {
		n.Digest, err = digestOf(ctx, dir, baseOf(n.Path), n)
	}
	switch {
	case err == nil, unreadable(err): // who may not read it compares the marks
		return nil
	case gone(err), errors.Is(err, unix.ENOTDIR):
		return conflict(op, ConflictMoving, "the host is writing it at this moment")
	}
	return fmt.Errorf("look at project: %s: %w", Quote(n.Path), err)
}

// sealed lists the entries of the base whose bytes sealPlan read.
func sealed(p *Plan, base *Manifest) []Node {
	var out []Node
	for i := range p.Ops {
		if len(p.Ops[i].Old) == 0 {
			continue
		}
		n := &p.Ops[i].Old[0]
		if b := base.find(n.Path); n.Digest.Known() && b != nil && !b.Digest.Known() && sameStamp(b, n) {
			out = append(out, *n)
		}
	}
	return out
}

// mayReach reports whether a rename from the state root can reach the project: it
// is tried with a target that cannot be ("."), for which the kernel says EXDEV
// only if it is on another mount. Whether each path can be reached is known when
// it is moved.
func mayReach(s store, t *tree) bool {
	var st unix.Stat_t
	if err := unix.Stat(s.dir, &st); err != nil || st.Dev != t.stat.Dev {
		return false
	}
	d, err := unix.Open(s.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(d)
	return !errors.Is(unix.Renameat2(d, "none", t.dir.Fd(), ".", unix.RENAME_NOREPLACE), unix.EXDEV)
}
