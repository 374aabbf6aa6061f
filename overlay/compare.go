package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/sbxd/sbxd/internal/safefs"
)

// compare reports how an entry of the upper differs from that of the base; b is
// zero if the base has none.
func (w *walker) compare(path string, u found, b Entry) error {
	c := Change{
		Path: path, Op: Add, Type: u.typ, Was: b.Type, Mode: u.stat.Perm(), WasMode: b.Mode,
		Target: u.target, MTime: u.stat.Mtime, Dev: u.stat.Dev, Ino: u.stat.Ino, Nlink: u.stat.Nlink,
		Xattrs: u.user, Others: u.others, CopiedUp: u.copiedUp,
	}
	switch u.typ {
	case File, Symlink:
		c.Size = u.stat.Size
	case Device:
		c.Rdev = u.stat.Rdev
	}
	if b.Type != None {
		var err error
		if c.Op, err = w.op(c, b); err != nil {
			return err
		}
	}
	c.Split = c.Op != Same && c.Was == File && b.Nlink > 1
	return w.report(c)
}

// op says how c differs from an entry that is there.
func (w *walker) op(c Change, b Entry) (Op, error) {
	if c.Type != b.Type {
		return Modify, nil
	}
	switch c.Type {
	case File:
		same, err := w.sameBytes(c, b)
		if err != nil {
			return Same, err
		}
		if !same {
			return Modify, nil
		}
	case Symlink: // has no mode and no attributes of its own
		if c.Target != b.Target {
			return Modify, nil
		}
		return Same, nil
	case Device:
		if c.Rdev != b.Rdev {
			return Modify, nil
		}
	}
	switch {
	case b.Mount:
		return Same, nil
	case c.Mode != b.Mode:
		return Mode, nil
	case b.Xattrs != nil && !maps.EqualFunc(c.Xattrs, b.Xattrs, bytes.Equal):
		return Attr, nil
	}
	return Same, nil
}

// sameBytes compares the bytes themselves: neither size nor time proves that
// nothing was written.
func (w *walker) sameBytes(c Change, b Entry) (bool, error) {
	if c.Size != b.Size {
		return false, nil
	}
	if c.Size == 0 {
		return true, nil
	}
	f, err := openRegular(w.upper, c.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, safefs.ErrNotRegular):
		return false, nil // replaced since it was looked at
	case err != nil:
		return false, w.access(c.Path, err)
	}
	defer func() { _ = f.Close() }()
	same, err := w.base.SameBytes(w.ctx, c.Path, f)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, safefs.ErrNotRegular):
		return false, nil // the host replaced it
	case err != nil:
		return false, fmt.Errorf("compare %q with base: %w", c.Path, err)
	}
	return same, nil
}

// report emits c unless it says nothing.
func (w *walker) report(c Change) error {
	if c.Op == Same {
		w.set.Same++
		if !w.opt.KeepSame {
			return nil
		}
	}
	if c.Op == Add && w.pinned(c) {
		if c.Type == Dir {
			w.pending = append(w.pending, c)
		}
		return nil
	}
	if c.Type != Dir && c.Nlink > 1 {
		id := [2]uint64{c.Dev, c.Ino}
		if first, ok := w.links[id]; ok {
			c.Link = first
		} else {
			w.links[id] = c.Path
		}
	}
	return w.emit(c)
}

// pinned reports whether c is there for a mask only: a placeholder, or a
// directory that leads to one. A file with content was written by somebody.
func (w *walker) pinned(c Change) bool {
	return c.Type == Dir && (w.pins.exact[c.Path] || w.pins.above[c.Path]) ||
		c.Type == File && w.pins.exact[c.Path] && c.Size == 0
}
