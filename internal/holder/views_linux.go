package holder

import (
	"fmt"
	"os"

	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/kernel"
	"github.com/sbxd/sbxd/overlay/unionfs"
)

// mountViews mounts the copy-on-write views at their real paths, outer before inner. They
// are made at the same time: most of that is waiting for the disk.
func (b *builder) mountViews() error {
	made := make([]func() (*os.File, error), len(b.spec.Views))
	for i := range b.spec.Views {
		made[i] = begin(func() (*os.File, error) { return b.makeView(i) })
	}
	var failed error
	for i, v := range b.spec.Views {
		view, err := made[i]()
		if err == nil && failed == nil {
			err = b.putView(view, v.Path)
		}
		if view != nil {
			_ = view.Close()
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

func (b *builder) makeView(i int) (*os.File, error) {
	v, l := b.spec.Views[i], b.views[i]
	if view := b.served[i]; view != nil {
		return view, unionfs.Settle(view)
	}
	spec := overlay.Spec{Lowers: []*os.File{l.lower}, Upper: l.upper, Work: l.work, Source: v.Label}
	if l.pins != nil {
		spec.Lowers = append(spec.Lowers, l.pins)
	}
	view, err := kernel.Backend{}.Mount(spec)
	if err != nil {
		return nil, fmt.Errorf("mount the view of %s: %w", v.Path, err)
	}
	return view, nil
}

// mountServed makes the views that are FUSE, each with a device that was opened in the
// user namespace that mounts, and has them served from here on.
func (b *builder) mountServed() error {
	b.served = map[int]*os.File{}
	var devices []*os.File
	for i, v := range b.spec.Views {
		if !v.FUSE {
			continue
		}
		dev, err := b.keep(unionfs.OpenDevice())
		if err != nil {
			return err
		}
		if b.served[i], err = unionfs.Mount(dev, unionfs.MountOptions{Source: v.Label}); err != nil {
			return fmt.Errorf("mount the view of %s: %w", v.Path, err)
		}
		devices = append(devices, dev)
	}
	if len(devices) == 0 {
		return nil
	}
	return b.offer(devices)
}

// begin runs do beside the caller, who gets what it returns by the function.
func begin[T any](do func() (T, error)) func() (T, error) {
	var v T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = do()
	}()
	return func() (T, error) { <-done; return v, err }
}

func (b *builder) putView(view *os.File, path string) error {
	if err := setAttr(view, rwFlags, false); err != nil {
		return err
	}
	if err := b.mkdirAll(path); err != nil {
		return err
	}
	return b.put(view, path)
}

// mountNested shows the host's mounts below a view read-only: a view does not cross
// into other file systems.
func (b *builder) mountNested() error {
	for i, tree := range b.nested {
		n := b.spec.Nested[i]
		if tree == nil {
			continue
		}
		if err := setAttr(tree, roFlags, true); err != nil {
			return fmt.Errorf("make the nested mount %s read-only: %w", n.Path, err)
		}
		if err := b.put(tree, n.Path); err != nil {
			b.warn("the mount %s is not shown: %v", n.Path, err)
		}
	}
	return nil
}
