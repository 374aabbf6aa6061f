package unionfs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/glob"
)

// Masks are patterns of paths below the root of a view that the view does not have. What
// matches is hidden with all below it.
//
// Masks are compiled to states: a directory of the view has a set of them, its
// entries one step on. So a path is never put together.
type Masks struct {
	patterns []glob.Pattern // those that hide, then those of mountpoints
	hiding   int            // how many hide
	files    map[FileID]bool
}

// FileID is a file that is hidden under any name: one of a lower that has a masked
// name and another.
type FileID struct{ Dev, Ino uint64 }

// state is a set of places in patterns: pattern<<16 | index of the next name.
type state []uint32

// maxPatterns is far beyond any list that a person writes, and the mounts of a session.
const maxPatterns = 1 << 14

// CompileMasks makes masks of patterns. Hidden are also the files.
//
// Mountpoints are paths below the root of the view that something is mounted on. There the
// view has what the last lower has, whatever the other layers have, and nobody inside can
// change it. The kernel drops a mount together with the name that it lies on or below,
// when that is found to be another object: what is then seen must not be the thing that
// the mount had hidden.
func CompileMasks(patterns []glob.Pattern, mountpoints [][]string, files ...FileID) (*Masks, error) {
	all := slices.Clone(patterns)
	for _, names := range mountpoints {
		all = append(all, glob.Literal(names...))
	}
	if len(all) > maxPatterns {
		return nil, fmt.Errorf("compile masks: %d patterns, at most %d", len(all), maxPatterns)
	}
	m := &Masks{patterns: all, hiding: len(patterns), files: map[FileID]bool{}}
	for _, f := range files {
		m.files[f] = true
	}
	return m, nil
}

// start is the state of the root.
func (m *Masks) start() state {
	if m == nil {
		return nil
	}
	var s state
	for i := range m.patterns {
		s = m.add(s, uint32(i)<<16)
	}
	return s
}

// add adds a place, and those that a globstar of no names leads to.
func (m *Masks) add(s state, at uint32) state {
	if slices.Contains(s, at) {
		return s
	}
	s = append(s, at)
	p, i := m.patterns[at>>16], int(at&0xffff)
	if i < len(p) && p[i] == "**" {
		s = m.add(s, at+1)
	}
	return s
}

// step is the state of the entry name of a directory in state s.
func (m *Masks) step(s state, name string) state {
	if m == nil || len(s) == 0 {
		return nil
	}
	var out state
	for _, at := range s {
		p, i := m.patterns[at>>16], int(at&0xffff)
		switch {
		case i == len(p):
		case p[i] == "**":
			out = m.add(out, at)
		default:
			if glob.Match(p[i], name) {
				out = m.add(out, at+1)
			}
		}
	}
	slices.Sort(out)
	return out
}

// hides reports whether the entry name of a directory in state s is hidden.
func (m *Masks) hides(s state, name string) bool {
	return m.ends(s, name, func(pattern int) bool { return pattern < m.hiding })
}

// holds reports whether the entry name of a directory in state s is a mountpoint.
func (m *Masks) holds(s state, name string) bool {
	return m.ends(s, name, func(pattern int) bool { return pattern >= m.hiding })
}

func (m *Masks) ends(s state, name string, counts func(pattern int) bool) bool {
	for _, at := range s {
		p, i := m.patterns[at>>16], int(at&0xffff)
		if i == len(p)-1 && p[i] != "**" && counts(int(at>>16)) && glob.Match(p[i], name) {
			return true
		}
	}
	return false
}

// leads reports whether a mountpoint lies below the entry name of a directory in state s.
func (m *Masks) leads(s state, name string) bool {
	return slices.ContainsFunc(m.step(s, name), func(at uint32) bool {
		return int(at>>16) >= m.hiding && int(at&0xffff) < len(m.patterns[at>>16])
	})
}

// hidesAny reports whether there is anything to hide.
func (m *Masks) hidesAny() bool { return m != nil && m.hiding+len(m.files) > 0 }

// held reports whether the entry name of d is a mountpoint that the last lower has. In a
// directory of the upper alone a mountpoint is what whoever is inside has made.
func (f *fs) held(d *node, name string) bool {
	if !f.opt.Masks.holds(d.states, name) {
		return false
	}
	f.tree.RLock()
	defer f.tree.RUnlock()
	return !d.opaque && d.lower&(1<<(f.pins()-1)) != 0
}

// refuses is the error of who makes the entry name of d, or nil.
func (f *fs) refuses(d *node, name string) error {
	switch {
	case f.opt.Masks.hides(d.states, name):
		return unix.EACCES
	case f.held(d, name):
		return unix.EBUSY // as a mountpoint is
	}
	return nil
}

// takes is the error of who takes the entry name of d away, or nil.
func (f *fs) takes(d *node, name string) error {
	err := f.refuses(d, name)
	if errors.Is(err, unix.EACCES) {
		return unix.ENOENT // there is no such name
	}
	return err
}

func (s state) equal(o state) bool { return slices.Equal(s, o) }

// spotMasked looks at a hidden entry of a lower: a file with other names is hidden
// under those too.
func (f *fs) spotMasked(dir, layer int, de dirent) {
	if layer == upperLayer || de.kind != unix.S_IFREG {
		return
	}
	var st unix.Statx_t
	if statAt(dir, de.name, &st) == nil && kindOf(&st) == unix.S_IFREG && st.Nlink > 1 {
		f.hideFile(keyOf(&st))
	}
}

// spotName is spotMasked for an event about a hidden name.
func (f *fs) spotName(d watched, name string) {
	fd, err := f.acquire(d.n, d.layer)
	if err != nil {
		return
	}
	defer d.n.release()
	f.spotMasked(fd, d.layer, dirent{name: name, kind: unix.S_IFREG})
}

// hideFile hides a file of a lower under every name.
func (f *fs) hideFile(k key) {
	f.tree.Lock()
	f.hidden[FileID{k.dev, k.ino}] = true
	n := f.byKey[k]
	var links []link
	if n != nil && !n.inUpper.Load() {
		n.masked.Store(true)
		links = n.links
	}
	f.tree.Unlock()
	for _, l := range links {
		l.parent.changed()
		f.invalidate(notice{node: l.parent.id, name: l.name})
		f.invalidate(notice{node: l.parent.id})
		f.invalidate(notice{node: n.id})
	}
}

// isHiddenEntry reports whether a listed file of a lower is hidden for another name.
func (f *fs) isHiddenEntry(de dirent) bool {
	if !f.opt.Masks.hidesAny() || de.layer == upperLayer || de.kind != unix.S_IFREG {
		return false
	}
	f.tree.RLock()
	defer f.tree.RUnlock()
	return f.isHidden(key{dev: f.layerDev(de.layer), ino: de.ino})
}

// isHidden reports whether a file of a lower is; fs.tree is held.
func (f *fs) isHidden(k key) bool {
	id := FileID{k.dev, k.ino}
	return f.opt.Masks.hidesAny() && (f.opt.Masks.files[id] || f.hidden[id])
}
