package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/kernel"
)

// applySteps lays masks, carve-outs, final masks and inputs in the order of the plan.
func (b *builder) applySteps() error {
	over := make(chan struct{})
	defer close(over)
	go b.lookAhead(over)
	for i, s := range b.spec.Steps {
		if err := b.applyStep(i, s); err != nil {
			return fmt.Errorf("%s (%s): %w", s.Path, s.Rule.From, err)
		}
	}
	return nil
}

// lookAhead looks the paths of the steps up, last one first, for the kernel to know their
// names when their turn comes: in a new view each of them asks all layers.
func (b *builder) lookAhead(over <-chan struct{}) {
	for _, s := range slices.Backward(b.spec.Steps) {
		select {
		case <-over:
			return
		default:
		}
		if at, err := b.at(s.Path); err == nil {
			_ = at.Close()
		}
	}
}

func (b *builder) applyStep(i int, s masks.Step) error {
	switch s.Op {
	case masks.Cover, masks.CoverLink:
		err := b.coverStep(i, s)
		if errors.Is(err, fs.ErrNotExist) {
			return b.coverMissing(s)
		}
		return b.unlessReplaced(s, err, "covered")
	case masks.BindRO:
		if f := b.keeper.files[i]; f != nil {
			return b.unlessReplaced(s, b.bindFollowed(i, f, s), "shown")
		}
		return b.unlessReplaced(s, b.bind(i, s, roFlags), "shown")
	case masks.BindRW:
		return b.unlessReplaced(s, b.bind(i, s, rwFlags), "shown")
	case masks.ViewRO:
		return b.unlessReplaced(s, b.viewRO(i, s), "shown")
	case masks.Pin:
		err := b.pin(s.Path)
		if s.Kind == masks.KindFile {
			return b.unlessReplaced(s, err, "held in its place")
		}
		return err
	}
	return fmt.Errorf("unknown operation %v", s.Op)
}

// cover hides the object at path, whatever it is (a link: the link itself), behind an
// empty read-only one.
func (b *builder) cover(path string) error {
	at, err := b.at(path)
	if err != nil {
		return err
	}
	defer at.Close()
	dir, err := isDir(at)
	if err != nil {
		return err
	}
	proto := b.coverF
	if dir {
		proto = b.coverD
	}
	mask, err := clone(proto, false)
	if err != nil {
		return err
	}
	defer mask.Close()
	return b.attach(mask, at)
}

// coverMissing covers a path that the view does not have. Below a view its mount point
// is made (an earlier run of the session may have removed it); elsewhere the tree is
// read-only and the path cannot come to be.
func (b *builder) coverMissing(s masks.Step) error {
	if !b.inView(s.Path) {
		return nil
	}
	var err error
	if s.Kind == masks.KindDir {
		err = b.mkdirAll(s.Path)
	} else {
		err = b.makeFile(s.Path)
	}
	switch {
	case errors.Is(err, unix.EROFS): // in a read-only part: the session cannot make it either
		return nil
	case err != nil:
		return err
	}
	return b.cover(s.Path)
}

// coverStep covers a path with the shared empty object, or with a directory of its own
// that has the mount points of later steps.
func (b *builder) coverStep(i int, s masks.Step) error {
	if err := b.pinMovable(s.Path); err != nil {
		return err
	}
	if len(s.Inside) == 0 {
		return b.cover(s.Path)
	}
	at, err := b.at(s.Path)
	if err != nil {
		return err
	}
	defer at.Close()
	dir, err := b.skeleton(i, s.Inside)
	if err != nil {
		return err
	}
	defer dir.Close()
	mask, err := clone(dir, false)
	if err != nil {
		return err
	}
	defer mask.Close()
	if err := setAttr(mask, roFlags|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
		return err
	}
	return b.attach(mask, at)
}

// skeleton makes a directory outside the tree that holds the given empty objects.
func (b *builder) skeleton(i int, inside []masks.Placeholder) (*os.File, error) {
	path := fmt.Sprintf("%s/skeleton-%d", stagePath, i)
	if err := unix.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make the mount points of a mask: %w", err)
	}
	dir, err := safefs.OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := MakePlaceholders(dir, inside); err != nil {
		return nil, err
	}
	return openPath(path)
}

// viewRO shows a source read-only through an overlay with placeholders below it, so
// that masks inside hold when the host replaces or creates what they cover.
func (b *builder) viewRO(i int, s masks.Step) error {
	var inside []masks.Placeholder
	for _, p := range b.spec.Placeholders {
		if p.View == s.Path {
			inside = append(inside, p)
		}
	}
	pins, err := b.skeleton(i, inside)
	if err != nil {
		return err
	}
	defer pins.Close()
	view, err := kernel.Backend{}.Mount(overlay.Spec{Lowers: []*os.File{b.sources[i], pins}})
	if err != nil {
		return err
	}
	defer view.Close()
	if err := setAttr(view, roFlags, false); err != nil {
		return err
	}
	if err := b.mountPoint(s.Path, true); err != nil {
		return err
	}
	return b.put(view, s.Path)
}

func (b *builder) inView(path string) bool {
	for _, v := range b.spec.Views {
		if masks.Within(path, v.Path) {
			return true
		}
	}
	return false
}

// bind mounts the opened source of step i at its path, making a mount point if needed.
func (b *builder) bind(i int, s masks.Step, attr uint64) error {
	src := b.sources[i]
	if err := setAttr(src, attr, true); err != nil {
		return err
	}
	dir, err := isDir(src)
	if err != nil {
		return err
	}
	if err := b.mountPoint(s.Path, dir); err != nil {
		return err
	}
	return b.put(src, s.Path)
}

// mountPoint makes a directory or file at path, unless one is there. ENOTDIR: something
// of another type is, which the session itself made.
func (b *builder) mountPoint(path string, dir bool) error {
	at, err := b.at(path)
	if err != nil && dir {
		return b.mkdirAll(path)
	}
	if err != nil {
		return b.makeFile(path)
	}
	defer at.Close()
	have, err := isDir(at)
	if err == nil && have != dir {
		err = &os.PathError{Op: "mount on", Path: path, Err: unix.ENOTDIR}
	}
	return err
}

func isDir(f *os.File) (bool, error) {
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	return st.IsDir(), nil
}
