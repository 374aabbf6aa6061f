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

// reverter takes steps back, after a conflict or a crash. Whether a step was done
// is told by inodes alone: its slot holds what was staged, or it does not. Steps
// are independent of each other, so any subset that a power cut left can be taken
// back, and so can a recovery that was itself cut short.
//
// What the host changed since is never touched: the path is left as it is, and
// what was there before stays among the objects.
type reverter struct {
	ctx   context.Context
	tree  *tree
	stage *safefs.Dir
	left  []string // paths that keep the host's bytes
	slots []string // objects that belong to them
}

// all takes every step back, the last first.
func (r *reverter) all(ops []Op) error {
	for i := len(ops) - 1; i >= 0; i-- {
		clean, err := r.one(&ops[i], slotName(i))
		if err != nil {
			return fmt.Errorf("take back %s of %s: %w", ops[i].Kind, Quote(ops[i].Path), err)
		}
		if !clean {
			r.left = append(r.left, ops[i].Path)
			r.slots = append(r.slots, slotName(i))
		}
	}
	return nil
}

// one takes one step back by its path.
func (r *reverter) one(op *Op, slot string) (bool, error) {
	if op.Kind == Settle {
		return true, nil
	}
	parent, err := r.tree.dir.Sub(parentOf(op.Path))
	if err == nil {
		defer parent.Close()
		return r.inverse(op, parent, slot)
	}
	if !notHere(err) {
		return false, err
	}
	// The host took the directory away. What we made went with it; what came out
	// of it has no place to go back to.
	done, err := r.done(op, slot)
	return !done || op.Kind == Create || op.Kind == Chmod, err
}

// notHere reports whether err (which may be nil) says that a path leads to nothing of this tree.
func notHere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV)
}

// done reports whether a step that moves something was done.
func (r *reverter) done(op *Op, slot string) (bool, error) {
	st, err := r.stage.Lstat(slot)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return false, err
	}
	switch op.Kind {
	case Create:
		return missing, nil
	case Replace:
		return !missing && st.Ino != op.New[0].Ino, nil
	case Remove:
		return !missing, nil
	default:
		return false, nil
	}
}

// inverse takes one step back below its directory. It reports whether nothing of
// the step is left; false means that the host was there since.
func (r *reverter) inverse(op *Op, parent *safefs.Dir, slot string) (bool, error) {
	if op.Kind == Chmod {
		return true, r.chmod(op, parent)
	}
	done, err := r.done(op, slot)
	if err != nil {
		return false, err
	}
	if !done {
		return r.untouched(op, slot)
	}
	name := baseOf(op.Path)
	if op.Kind == Remove {
		if err := fault.Hit("land.revert.remove"); err != nil {
			return false, err
		}
		err := r.stage.RenameNoReplace(slot, parent, name)
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return err == nil, err
	}
	ours, _, err := matches(r.ctx, parent, name, op.New)
	if err != nil {
		return false, err
	}
	if !ours {
		return r.theirs(op, parent, name)
	}
	if err := fault.Hit("land.revert." + op.Kind.String()); err != nil {
		return false, err
	}
	if err := r.swap(op, parent, name, slot); err != nil {
		return false, ignoreRaced(err)
	}
	// Between the look and the swap the host may have been faster.
	if ours, _, err = matches(r.ctx, r.stage, slot, op.New); err != nil || ours {
		return ours, err
	}
	return false, ignoreRaced(r.swapBack(op, parent, name, slot))
}

// swap takes what we put there out again, and puts back what was there.
func (r *reverter) swap(op *Op, parent *safefs.Dir, name, slot string) error {
	if op.Kind == Create {
		return parent.RenameNoReplace(name, r.stage, slot)
	}
	return r.stage.Exchange(slot, parent, name)
}

func (r *reverter) swapBack(op *Op, parent *safefs.Dir, name, slot string) error {
	if op.Kind == Create {
		return r.stage.RenameNoReplace(slot, parent, name)
	}
	return r.stage.Exchange(slot, parent, name)
}

// ignoreRaced turns the host's being faster into no error.
func ignoreRaced(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// theirs decides about a path that no longer has what we put there.
func (r *reverter) theirs(op *Op, parent *safefs.Dir, name string) (bool, error) {
	if op.Kind == Replace {
		return false, nil
	}
	// Of something that was made anew only an edited one is ours in part.
	st, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && st.Ino != op.New[0].Ino, err
}

// untouched looks at the staged object of a step that was not done, or was taken
// back before: an edit that the host made in between must not be thrown away.
func (r *reverter) untouched(op *Op, slot string) (bool, error) {
	if op.Kind == Remove {
		return true, nil
	}
	same, _, err := matches(r.ctx, r.stage, slot, op.New)
	return same, err
}

// chmod sets the old mode again where ours is still set.
func (r *reverter) chmod(op *Op, parent *safefs.Dir) error {
	h, err := handle(parent, baseOf(op.Path))
	if err != nil {
		if notHere(err) {
			return nil
		}
		return err
	}
	defer h.Close()
	st, err := safefs.StatFD(int(h.Fd()))
	if err != nil || st.Ino != op.Old[0].Ino || st.Perm() != op.New[0].Mode {
		return err
	}
	if err := fault.Hit("land.revert.chmod"); err != nil {
		return err
	}
	return chmodHandle(h, op.Old[0].Mode)
}
