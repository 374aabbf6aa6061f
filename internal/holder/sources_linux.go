package holder

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/masks"
)

// openSources opens everything of the host that the session gets, before any of it is
// mounted: what is opened is what is bound.
func (b *builder) openSources() error {
	for _, n := range b.spec.Nested {
		tree, err := b.openNested(n)
		if err != nil {
			b.warn("the mount %s is not shown: %v", n.Path, err)
		}
		b.nested = append(b.nested, tree)
	}
	b.sources = map[int]*os.File{}
	for i, s := range b.spec.Steps {
		var src *os.File
		var err error
		switch {
		case isFollowed(s):
			src, err = b.follow(i, s)
		case s.Op == masks.BindRO, s.Op == masks.BindRW:
			src, err = b.cloneOf(s)
		case s.Op == masks.ViewRO:
			src, err = b.openSource(s)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("%s (%s): %w", s.Path, s.Rule.From, err)
		}
		b.sources[i] = src
	}
	return b.openViews()
}

// openViews comes last, inner views first: a layer that is attached covers what the
// host has mounted below its path.
func (b *builder) openViews() error {
	b.views = make([]layers, len(b.spec.Views))
	for i, v := range slices.Backward(b.spec.Views) {
		l, err := b.openView(v)
		if err != nil {
			return err
		}
		b.views[i] = l
	}
	return nil
}

// openView opens the layers of one view and checks that the lower one is still the
// directory that the session was made for.
func (b *builder) openView(v View) (l layers, err error) {
	if v.Layer > 0 {
		if l.lower, err = b.attachLayer(v); err != nil {
			return l, err
		}
	} else if l.lower, err = b.keep(b.host(v.Path)); err != nil {
		return l, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(l.lower.Fd()), &st); err != nil {
		return l, fmt.Errorf("look at %s: %w", v.Path, err)
	}
	if v.Ino != 0 && (st.Ino != v.Ino || st.Dev != v.Dev) {
		return l, fmt.Errorf("%s is another directory than the session was made for", v.Path)
	}
	dir, err := b.keep(b.host(v.Dir))
	if err != nil {
		return l, err
	}
	if l.upper, err = b.keep(walk(dir, "upper")); err != nil {
		return l, err
	}
	if l.work, err = b.keep(walk(dir, "work")); err != nil {
		return l, err
	}
	if v.Pins != "" {
		l.pins, err = b.keep(b.host(v.Pins))
	}
	return l, err
}

// attachLayer mounts a clone that root has cut off somewhere of our own, since a layer must belong
// to our mount namespace, and opens it there.
func (b *builder) attachLayer(v View) (*os.File, error) {
	if v.Layer > len(b.layerFiles) {
		return nil, fmt.Errorf("the layer of %s did not come", v.Path)
	}
	layer := b.layerFiles[v.Layer-1]
	at, err := b.host(v.Path)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	if err := move(layer, at); err != nil {
		return nil, fmt.Errorf("attach the layer of %s: %w", v.Path, err)
	}
	return b.keep(b.host(v.Path))
}

// openNested clones a mount of the host below a view, with what is mounted below it.
func (b *builder) openNested(n Nested) (*os.File, error) {
	if n.Hide {
		return nil, nil
	}
	f, err := b.host(n.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return b.keep(clone(f, true))
}

// openSource opens the source of a step; no link may lead to it, and it must be the
// object that the plan saw.
func (b *builder) openSource(s masks.Step) (*os.File, error) {
	f, err := b.keep(b.host(s.Source))
	if err != nil {
		return nil, err
	}
	return f, planned(f, s)
}

// planned returns an error if f is not the object that the plan saw.
func planned(f *os.File, s masks.Step) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", s.Source, err)
	}
	if s.SourceID != (masks.FileID{}) && s.SourceID != (masks.FileID{Dev: st.Dev, Ino: st.Ino}) {
		return fmt.Errorf("%s was replaced while the session was starting", s.Source)
	}
	return nil
}

// cloneOf returns a detached clone of a step's source, with what is mounted below it.
func (b *builder) cloneOf(s masks.Step) (*os.File, error) {
	f, err := b.openSource(s)
	if err != nil {
		return nil, err
	}
	return b.keep(clone(f, true))
}
