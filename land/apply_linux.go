package land

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
	"golang.org/x/sys/unix"
)

// errElsewhere says that no rename reaches a path of the project from the stage.
var errElsewhere = errors.New("the stage is on another file system")

// applier does the steps of a plan. Each is one rename that is whole or not at
// all; what comes out of the project is compared only then, when no writer can
// find it by its name any more. The first step that does not fit ends it, and the
// caller takes all back.
type applier struct {
	ctx   context.Context
	tree  *tree
	stage *safefs.Dir
	ops   []Op
	// out are the objects that came out, as they were directly after.
	out [][]Node
}

// run does all steps. A *ConflictError says which did not fit.
func (a *applier) run() error {
	a.out = make([][]Node, len(a.ops))
	for i := range a.ops {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if err := a.step(i); err != nil {
			return err
		}
	}
	return a.late()
}

func conflict(op *Op, kind, what string) error {
	return &ConflictError{Conflicts: []Conflict{{Path: op.Path, Kind: kind, What: what}}}
}

func (a *applier) step(i int) error {
	op := &a.ops[i]
	if op.Kind == Settle {
		return nil
	}
	parent, err := a.tree.dir.Sub(parentOf(op.Path))
	if err != nil {
		return a.noParent(op, err)
	}
	defer parent.Close()
	if op.Kind == Chmod {
		return a.chmod(op, parent)
	}
	if err := a.move(op, parent, slotName(i)); err != nil {
		return a.moveFailed(op, err)
	}
	if op.Kind != Create {
		same, seen, err := matches(a.ctx, a.stage, slotName(i), op.Old)
		if err != nil {
			return fmt.Errorf("compare %s: %w", Quote(op.Path), err)
		}
		if !same {
			return conflict(op, ConflictContent, "the host changed it during the landing")
		}
		a.out[i] = seen
	}
	return a.inPlace(op, parent, i)
}

// move does the one rename of a step.
func (a *applier) move(op *Op, parent *safefs.Dir, slot string) error {
	if err := fault.Hit("land.apply." + op.Kind.String()); err != nil {
		return err
	}
	name := baseOf(op.Path)
	switch op.Kind {
	case Create:
		return a.stage.RenameNoReplace(slot, parent, name)
	case Replace:
		return a.stage.Exchange(slot, parent, name)
	default:
		return parent.RenameNoReplace(name, a.stage, slot)
	}
}

func (a *applier) noParent(op *Op, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return conflict(op, ConflictParent, "the host moved its directory during the landing")
	case errors.Is(err, unix.EXDEV):
		return conflict(op, ConflictMount, "something is mounted above it")
	}
	return fmt.Errorf("open the directory of %s: %w", Quote(op.Path), err)
}

func (a *applier) moveFailed(op *Op, err error) error {
	switch {
	case op.Kind == Create && errors.Is(err, fs.ErrExist):
		return conflict(op, ConflictAdd, "the host made it during the landing")
	case op.Kind != Create && errors.Is(err, fs.ErrNotExist):
		return conflict(op, ConflictEdit, "the host removed it during the landing")
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%s: %w", Quote(op.Path), errElsewhere)
	case errors.Is(err, unix.EBUSY):
		return conflict(op, ConflictMount, "something is mounted there")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return &RefusedError{What: "the project's file system", Why: "it cannot exchange two names in one step (renameat2)", Next: "take the files out with cp", Err: err}
	case errors.Is(err, unix.EROFS):
		return readOnly(a.tree, err)
	case errors.Is(err, fs.ErrPermission):
		return &RefusedError{What: Quote(op.Path), Why: "this user may not change its directory", Next: "change the directory's owner or mode and land again", Err: err}
	}
	return fmt.Errorf("%s %s: %w", op.Kind, Quote(op.Path), err)
}

func readOnly(t *tree, err error) error {
	return &RefusedError{What: "project " + Quote(t.path), Why: "it is mounted read-only", Next: "make it writable and land again", Err: err}
}

// inPlace makes sure that the directory that was written to is still the one that
// the path names: the host may move it, with what was just put into it.
func (a *applier) inPlace(op *Op, parent *safefs.Dir, i int) error {
	if there, err := sameDir(a.tree, parent, parentOf(op.Path)); there || err != nil {
		return err
	}
	// Where the path leads now is not where the step was done, so it is taken back
	// through the descriptor.
	r := reverter{ctx: a.ctx, tree: a.tree, stage: a.stage}
	if _, err := r.inverse(op, parent, slotName(i)); err != nil {
		return err
	}
	return conflict(op, ConflictParent, "the host moved its directory during the landing")
}

// sameDir reports whether the path p of the project still names the directory d.
func sameDir(t *tree, d *safefs.Dir, p string) (bool, error) {
	held, err := d.Lstat("")
	if err != nil {
		return false, err
	}
	now, err := t.dir.Lstat(p)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
			return false, nil
		}
		return false, err
	}
	return now.Dev == held.Dev && now.Ino == held.Ino, nil
}

// chmod sets the mode of an entry that is still what it was.
func (a *applier) chmod(op *Op, parent *safefs.Dir) error {
	h, err := handle(parent, baseOf(op.Path))
	if err != nil {
		return a.moveFailed(op, err)
	}
	defer h.Close()
	st, err := safefs.StatFD(int(h.Fd()))
	if err != nil {
		return err
	}
	now, want := fromStat(op.Path, st, a.tree.stat.Dev), &op.Old[0]
	if now.Type != want.Type || now.Ino != want.Ino || now.Mode != want.Mode ||
		(now.Type != dirType && (now.Nlink > 1 || now.Size != want.Size || now.MTime != want.MTime || now.CTime != want.CTime)) {
		return conflict(op, ConflictMode, "the host changed it during the landing")
	}
	if err := fault.Hit("land.apply.chmod"); err != nil {
		return err
	}
	if err := chmodHandle(h, op.New[0].Mode); err != nil {
		return a.moveFailed(op, err)
	}
	there, err := sameDir(a.tree, parent, parentOf(op.Path))
	if err == nil && !there {
		return errors.Join(chmodHandle(h, want.Mode), conflict(op, ConflictParent, "the host moved its directory during the landing"))
	}
	return err
}

// late looks once more at all that came out: a writer that had a file open before
// may still have written to it.
func (a *applier) late() error {
	for i := range a.ops {
		if len(a.out[i]) == 0 {
			continue
		}
		still, err := settled(a.ctx, a.stage, slotName(i), a.out[i])
		if err != nil {
			return fmt.Errorf("compare %s: %w", Quote(a.ops[i].Path), err)
		}
		if !still {
			return conflict(&a.ops[i], ConflictMoving, "the host wrote to it during the landing")
		}
	}
	return nil
}

// settled reports whether an object that nobody moved is to the kernel's marks
// still as it was seen.
func settled(ctx context.Context, dir *safefs.Dir, name string, seen []Node) (bool, error) {
	now, err := nodesAt(ctx, dir, name, seen[0].Path, devOf(dir))
	if err != nil || len(now) != len(seen) {
		return false, ignoreGone(err)
	}
	for i := range now {
		if seen[i].Nlink > 1 { // a step that moved another name moved its ctime
			now[i].CTime = seen[i].CTime
		}
		if now[i].Path != seen[i].Path || !sameStamp(&now[i], &seen[i]) {
			return false, nil
		}
	}
	return true, nil
}
