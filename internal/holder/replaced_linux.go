package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/hostpath"
	"github.com/sbxd/sbxd/masks"
)

// replaced reports whether a path is not there because something of another type, a link
// for one, stands on the way.
func replaced(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)
}

// unlessReplaced takes the error of step s away when the session itself, in an earlier
// run, put something else in the place of its path: the session keeps what it made, and
// the host's object is not below that any more. Whatever the host replaced between the
// plan and now refuses the start.
func (b *builder) unlessReplaced(s masks.Step, err error, done string) error {
	switch {
	case !replaced(err):
		return err
	case b.ownDoing(s.Path), s.Op != masks.Cover && s.Op != masks.CoverLink && b.inPrivate(s.Path):
		b.warn("%s (%s) is not %s: the session replaced it, or a directory above it", s.Path, s.Rule.From, done)
		return nil
	}
	return fmt.Errorf("it was replaced while the session was starting: %w", err)
}

// ownDoing reports whether the upper layer of a view has something at path or above it
// that is no directory.
func (b *builder) ownDoing(path string) bool {
	i := b.viewOf(path)
	if !b.spec.Resume || i < 0 || b.inCarve(path) {
		return false
	}
	parts := strings.Split(hostpath.Rel(path, b.spec.Views[i].Path), "/")
	for n := range parts {
		at, err := walk(b.views[i].upper, strings.Join(parts[:n+1], "/"))
		if err != nil {
			return false // the rest is as the host has it
		}
		dir, err := isDir(at)
		_ = at.Close()
		if err != nil || !dir {
			return err == nil
		}
	}
	return true // a directory in the place of a file
}

// inCarve reports whether path lies in a writable piece of the host.
func (b *builder) inCarve(path string) bool {
	return b.within(path, func(s masks.Step) bool { return s.Op == masks.BindRW })
}

// inPrivate reports whether path lies in an agent's own directory, where earlier
// sessions made what they liked.
func (b *builder) inPrivate(path string) bool {
	return b.within(path, func(s masks.Step) bool { return s.Op == masks.BindRW && s.Rule.Target != "" })
}

func (b *builder) within(path string, which func(masks.Step) bool) bool {
	for _, s := range b.spec.Steps {
		if path != s.Path && masks.Within(path, s.Path) && which(s) {
			return true
		}
	}
	return false
}
