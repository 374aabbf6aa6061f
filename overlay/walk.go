package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
)

// found is one entry of the upper with what its marks say.
type found struct {
	name   string
	stat   safefs.Stat
	typ    Type
	target string
	verdict
}

// list reads one directory of the upper, sorted by name. It is closed again
// before anything below is looked at, so depth costs no descriptors. Entries that
// vanish meanwhile are left out.
func (w *walker) list(path string) ([]found, error) {
	dir, err := w.upper.Sub(path)
	if err != nil {
		return nil, w.access(path, err)
	}
	defer func() { _ = dir.Close() }()
	var out []found
	var inner error
	err = dir.Each("", func(e safefs.Entry) error {
		p := join(path, e.Name)
		if inner = w.step(p); inner != nil {
			return inner
		}
		f, err := look(dir, e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			inner = w.access(p, err)
			return inner
		}
		for _, m := range f.forged {
			m.Path = p
			w.set.Forged = append(w.set.Forged, m)
		}
		out = append(out, f)
		return nil
	})
	switch {
	case inner != nil:
		return nil, inner
	case err != nil:
		return nil, w.access(path, err)
	}
	slices.SortFunc(out, func(a, b found) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// access gives an error of the upper its path, and a meaning where it has one.
func (w *walker) access(path string, err error) error {
	var pe *fs.PathError
	switch {
	case !errors.As(err, &pe):
		return fmt.Errorf("read upper: %q: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("read upper: %q: %w: %w", path, ErrNoAccess, pe.Err)
	}
	return fmt.Errorf("read upper: %s %q: %w", pe.Op, path, pe.Err)
}

// look describes one entry. Only files and directories can carry marks: user.*
// attributes exist on nothing else (xattr(7)).
func look(dir *safefs.Dir, name string) (found, error) {
	st, err := dir.Lstat(name)
	if err != nil {
		return found{}, err
	}
	f := found{name: name, stat: st, typ: typeOf(st)}
	switch f.typ {
	case Symlink:
		f.target, err = dir.Readlink(name)
	case Device:
		f.whiteout = st.IsWhiteout()
	case File, Dir:
		f.verdict, err = readMarks(dir, name, f.typ, st.Size)
	}
	return f, err
}

func readMarks(dir *safefs.Dir, name string, t Type, size int64) (verdict, error) {
	names, err := dir.Listxattr(name)
	if err != nil {
		return verdict{}, err
	}
	attrs := make(map[string][]byte, len(names))
	for _, n := range names {
		attrs[n] = nil
		if n != ns+"opaque" && (strings.HasPrefix(n, ns) || !strings.HasPrefix(n, "user.") || isForeign(n)) {
			continue // the name says it all
		}
		v, err := dir.Getxattr(name, n)
		if errors.Is(err, unix.ENODATA) {
			delete(attrs, n)
			continue
		}
		if err != nil {
			return verdict{}, err
		}
		attrs[n] = v
	}
	return judge(t, size, attrs)
}

// root decodes the whole upper. Its own mode and marks say nothing of the tree:
// the directory was made by us.
func (w *walker) root() error { return w.dir("", false, true, 0) }

// dir decodes the directory at path of the upper. opaque says that nothing of
// the base shows through; inBase that the base has a directory there.
func (w *walker) dir(path string, opaque, inBase bool, depth int) error {
	if depth > w.maxDepth {
		return fmt.Errorf("%w: more than %d directories, at %.200q", ErrTooDeep, w.maxDepth, path)
	}
	entries, err := w.list(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil // gone, or replaced, since its parent was read
	}
	if err != nil {
		return err
	}
	var below []string // names of the base, where those of the upper are not enough
	if opaque && inBase {
		if below, err = w.baseNames(path); err != nil {
			return err
		}
	}
	for len(entries) > 0 || len(below) > 0 {
		if len(below) > 0 && (len(entries) == 0 || below[0] <= entries[0].name) {
			if len(entries) == 0 || below[0] != entries[0].name {
				if err := w.gone(join(path, below[0]), depth+1); err != nil {
					return err
				}
			}
			below = below[1:]
			continue
		}
		if err := w.entry(path, entries[0], opaque, inBase, depth+1); err != nil {
			return err
		}
		entries = entries[1:]
	}
	return nil
}

func (w *walker) baseNames(path string) ([]string, error) {
	names, err := w.base.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read base: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// entry decodes one entry of the upper.
func (w *walker) entry(dir string, u found, opaque, inBase bool, depth int) error {
	path := join(dir, u.name)
	if w.isMasked(path) {
		w.set.Masked = append(w.set.Masked, path)
		return nil
	}
	if u.whiteout {
		if !inBase {
			return nil
		}
		return w.gone(path, depth)
	}
	var b Entry
	if inBase {
		var err error
		b, err = w.base.Lstat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read base: %w", err)
		}
		if err != nil {
			b = Entry{}
		}
	}
	if b.Type == Dir && u.typ != Dir && w.holdsMasked(path) {
		w.set.Masked = append(w.set.Masked, path)
		return nil
	}
	if err := w.compare(path, u, b); err != nil {
		return err
	}
	switch {
	case u.typ == Dir:
		return w.enter(path, u, b, opaque, depth)
	case b.Type == Dir:
		return w.goneBelow(path, depth)
	}
	return nil
}

// enter decodes what is in a directory of the upper.
func (w *walker) enter(path string, u found, b Entry, opaque bool, depth int) error {
	opaque = opaque || u.opaque
	if u.opaque && b.Type == Dir {
		w.set.Opaque = append(w.set.Opaque, path)
	}
	pending := len(w.pending)
	if err := w.dir(path, opaque, b.Type == Dir, depth); err != nil {
		return err
	}
	if n := len(w.pending); n > 0 && n == pending && w.pending[n-1].Path == path {
		w.pending = w.pending[:n-1]
	}
	return nil
}

// gone reports that the view does not have what the base has at path, with all
// below it. That the base has nothing there is no error: the host was faster.
func (w *walker) gone(path string, depth int) error {
	if err := w.step(path); err != nil {
		return err
	}
	if depth > w.maxDepth {
		return fmt.Errorf("%w: more than %d directories, at %.200q", ErrTooDeep, w.maxDepth, path)
	}
	b, err := w.base.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read base: %w", err)
	}
	if w.isMasked(path) || b.Type == Dir && w.holdsMasked(path) {
		w.set.Masked = append(w.set.Masked, path)
	} else if err := w.emit(Change{
		Path: path, Op: Delete, Type: b.Type, Was: b.Type, Mode: b.Mode, WasMode: b.Mode,
		Size: b.Size, Target: b.Target, Rdev: b.Rdev, MTime: b.MTime,
	}); err != nil {
		return err
	}
	if b.Type != Dir || w.isMasked(path) {
		return nil
	}
	return w.goneBelow(path, depth)
}

func (w *walker) goneBelow(path string, depth int) error {
	names, err := w.baseNames(path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := w.gone(join(path, n), depth+1); err != nil {
			return err
		}
	}
	return nil
}
