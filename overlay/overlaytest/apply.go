package overlaytest

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// Apply makes dir, a copy of the base of upper, what s says. It is the plainest
// possible reader of a set: everything it needs is in s and the files of upper.
func Apply(s *overlay.Set, upper, dir string) error {
	from, err := safefs.OpenDir(upper)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := safefs.OpenDir(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, c := range slices.Backward(s.Changes) {
		if c.Op == overlay.Delete {
			if err := to.Remove(c.Path); err != nil {
				return fmt.Errorf("apply: %w", err)
			}
		}
	}
	for _, c := range s.Changes {
		if c.Op == overlay.Delete {
			continue
		}
		if err := put(from, to, c); err != nil {
			return fmt.Errorf("apply %s %q: %w", c.Op, c.Path, err)
		}
	}
	for _, c := range slices.Backward(s.Changes) {
		if c.Op == overlay.Delete || c.Type == overlay.Symlink {
			continue
		}
		if err := to.Chmod(c.Path, c.Mode); err != nil {
			return fmt.Errorf("apply: %w", err)
		}
	}
	return nil
}

func put(from, to *safefs.Dir, c overlay.Change) error {
	if c.Op == overlay.Modify {
		if err := to.Remove(c.Path); err != nil {
			return err
		}
	}
	if c.Op == overlay.Add || c.Op == overlay.Modify {
		if err := create(from, to, c); err != nil {
			return err
		}
	}
	if c.Type != overlay.File && c.Type != overlay.Dir {
		return nil
	}
	old, err := userAttrs(to, c.Path)
	if err != nil {
		return err
	}
	for n := range old {
		if _, ok := c.Xattrs[n]; !ok {
			err = errors.Join(err, to.Removexattr(c.Path, n))
		}
	}
	for n, v := range c.Xattrs {
		err = errors.Join(err, to.Setxattr(c.Path, n, v))
	}
	return err
}

func create(from, to *safefs.Dir, c overlay.Change) error {
	switch c.Type {
	case overlay.Dir:
		return to.Mkdir(c.Path, 0o700)
	case overlay.Symlink:
		return to.Symlink(c.Target, c.Path)
	case overlay.FIFO:
		return to.Mknod(c.Path, unix.S_IFIFO|0o600, 0)
	case overlay.Socket:
		return to.Mknod(c.Path, unix.S_IFSOCK|0o600, 0)
	case overlay.File:
		if c.Link != "" {
			return to.Link(c.Link, to, c.Path)
		}
		return copyFile(from, to, c.Path)
	}
	return fmt.Errorf("an agent cannot make a %s", c.Type)
}

func copyFile(from, to *safefs.Dir, path string) error {
	src, err := from.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := to.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// CopyTree copies the tree below from into the empty directory to, with all that
// Tree describes.
func CopyTree(from, to string) error {
	empty, err := safefs.OpenDir(to)
	if err != nil {
		return err
	}
	defer empty.Close()
	s, err := decode(from, to, overlay.Options{})
	if err != nil {
		return err
	}
	return Apply(s, from, to)
}
