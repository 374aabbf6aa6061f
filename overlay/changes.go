package overlay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
)

// Changes decodes an upper against the base of its view. The root itself, whose
// mode is ours to choose, is never reported. It only reads, by descriptors below
// upper, which is set to OneMount. An upper in use may give a
// mixture of before and after, never a wrong reading of a mark; freeze the
// session for an exact one.
//
// Errors wrap ErrUnsupportedUpper, ErrTooMany, ErrTooDeep or ErrNoAccess with
// the path, or are those of the file system and of ctx.
func Changes(ctx context.Context, upper *safefs.Dir, base Base, opt Options) (*Set, error) {
	var changes []Change
	s, err := Walk(ctx, upper, base, opt, func(c Change) error {
		changes = append(changes, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Changes = changes
	if opt.Hints {
		if err := hint(ctx, upper, base, s.Changes); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Walk is Changes for a caller that takes one change at a time, in path order,
// or stops at the first by returning an error, which Walk returns as it is. The
// Set has no Changes, and Options.Hints does nothing.
func Walk(ctx context.Context, upper *safefs.Dir, base Base, opt Options, f func(Change) error) (*Set, error) {
	if err := checkXattrs(upper); err != nil {
		return nil, err
	}
	w := &walker{
		ctx: ctx, upper: upper.OneMount(), base: base, opt: opt, set: &Set{}, yield: f,
		masked: newPathSet(), pins: newPathSet(), links: map[[2]uint64]string{},
		maxEntries: bound(opt.MaxEntries, MaxEntries), maxDepth: bound(opt.MaxDepth, MaxDepth),
	}
	if err := w.prepare(); err != nil {
		return nil, err
	}
	root, err := w.base.Lstat("")
	if err != nil || root.Type != Dir {
		return nil, fmt.Errorf("read base: %w", errors.Join(err, notDir(root)))
	}
	if err := w.root(); err != nil {
		return nil, err
	}
	return w.set, nil
}

func notDir(e Entry) error {
	if e.Type != Dir {
		return unix.ENOTDIR
	}
	return nil
}

func bound(asked, most int) int {
	if asked > 0 && asked < most {
		return asked
	}
	return most
}

// checkXattrs refuses an upper whose marks cannot be read: a missing opaque mark
// would bring back what the session deleted.
func checkXattrs(upper *safefs.Dir) error {
	_, err := upper.Getxattr("", ns+"opaque")
	switch {
	case err == nil, errors.Is(err, unix.ENODATA):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: its file system keeps no user attributes", ErrUnsupportedUpper)
	}
	return fmt.Errorf("read marks of upper: %w", err)
}

// walker is one decoding. All paths are relative to the view.
type walker struct {
	ctx   context.Context
	upper *safefs.Dir
	base  Base
	opt   Options
	set   *Set
	yield func(Change) error

	holds  map[string]bool // what holdsMasked found
	masked pathSet         // Options.Masked; above = directories of the base that hold one
	pins   pathSet         // Options.Placeholders that the base does not have
	// pending are directories of the view that are reported only when
	// something in them is.
	pending []Change
	links   map[[2]uint64]string // first path of (dev, ino)

	seen, maxEntries, maxDepth int
}

// prepare sorts out which masked and placeholder paths the base has.
func (w *walker) prepare() error {
	for _, p := range w.opt.Masked {
		w.masked.exact[p] = true
		there, err := w.inBase(p)
		if err != nil {
			return err
		}
		if there {
			w.masked.addAbove(p)
		}
	}
	for _, p := range w.opt.Placeholders {
		there, err := w.inBase(p)
		if err != nil {
			return err
		}
		if !there {
			w.pins.add(p)
		}
	}
	return nil
}

func (w *walker) inBase(path string) (bool, error) {
	_, err := w.base.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read base: %w", err)
	}
	return true, nil
}

// step counts one entry and looks at the context.
func (w *walker) step(path string) error {
	if w.seen++; w.seen > w.maxEntries {
		return fmt.Errorf("%w: more than %d, at %q", ErrTooMany, w.maxEntries, path)
	}
	return w.ctx.Err()
}

// emit yields c, and before it the pending directories that hold it.
func (w *walker) emit(c Change) error {
	for _, d := range w.pending {
		if err := w.yield(d); err != nil {
			return err
		}
	}
	w.pending = nil
	return w.yield(c)
}
