package land

import (
	"slices"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// Manifest is the project as it was when the session began, advanced by what was
// landed since: the base that both sides are compared with.
type Manifest struct {
	Root    Root
	Started safefs.Time // by Clock
	// RootUnsure is Node.Unsure of the root.
	RootUnsure bool
	Nodes      []Node // in path order (overlay.ComparePaths); the root is not among them
}

const manifestMagic = "sbxd-base-2\n"

func (m *Manifest) encode() []byte {
	e := &encoder{b: make([]byte, 0, 64*len(m.Nodes)+256)}
	e.root(m.Root)
	e.time(m.Started)
	e.bool(m.RootUnsure)
	e.nodes(m.Nodes)
	return e.seal(manifestMagic)
}

func decodeManifest(b []byte) (*Manifest, error) {
	d, err := unseal(manifestMagic, b)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Root: d.root(), Started: d.time(), RootUnsure: d.bool(), Nodes: d.nodes()}
	return m, d.end()
}

// search returns where p is, or would be.
func (m *Manifest) search(p string) (int, bool) {
	return slices.BinarySearchFunc(m.Nodes, p, func(n Node, p string) int { return overlay.ComparePaths(n.Path, p) })
}

// find returns the entry at p, or nil.
func (m *Manifest) find(p string) *Node {
	if i, ok := m.search(p); ok {
		return &m.Nodes[i]
	}
	return nil
}

// mayMiss reports whether the host may have taken p away between the start of the
// session and the recording: the directory it would be in changed in that time.
func (m *Manifest) mayMiss(p string) bool {
	for p != "" {
		p = parentOf(p)
		if n := m.find(p); n != nil {
			return n.Unsure
		}
	}
	return m.RootUnsure
}

// tree returns the entry at p and all below it, in path order.
func (m *Manifest) tree(p string) []Node {
	i, _ := m.search(p)
	j := i
	for j < len(m.Nodes) && below(m.Nodes[j].Path, p) {
		j++
	}
	return m.Nodes[i:j]
}

// names returns the names in the directory p.
func (m *Manifest) names(p string) []string {
	var out []string
	i := 0
	if p != "" {
		var ok bool
		if i, ok = m.search(p); !ok {
			return nil
		}
		i++
	}
	for i < len(m.Nodes) && below(m.Nodes[i].Path, p) {
		child := m.Nodes[i].Path
		out = append(out, baseOf(child))
		i = m.after(i, child)
	}
	return out
}

// after returns the index behind the tree at p, which begins at i.
func (m *Manifest) after(i int, p string) int {
	if m.Nodes[i].Type != overlay.Dir {
		return i + 1
	}
	for step := 1; ; step *= 2 {
		if i+step >= len(m.Nodes) || !below(m.Nodes[i+step].Path, p) {
			lo, hi := i+step/2, min(i+step, len(m.Nodes))
			for lo < hi {
				if mid := (lo + hi) / 2; below(m.Nodes[mid].Path, p) {
					lo = mid + 1
				} else {
					hi = mid
				}
			}
			return lo
		}
	}
}

// patch is one step by which a base went on: whole trees that are gone, then
// entries that are there now.
type patch struct {
	Gone []string
	Here []Node
}

const patchMagic = "sbxd-patch-1\n"

func (p *patch) encode() []byte {
	e := &encoder{}
	e.uint(uint64(len(p.Gone)))
	for _, g := range p.Gone {
		e.path(g)
	}
	e.nodes(p.Here)
	return e.seal(patchMagic)
}

func decodePatch(b []byte) (*patch, error) {
	d, err := unseal(patchMagic, b)
	if err != nil {
		return nil, err
	}
	p := &patch{}
	for range d.count() {
		p.Gone = append(p.Gone, d.path())
	}
	p.Here = d.nodes()
	return p, d.end()
}

// apply returns m advanced by the patches in turn. Doing it again changes
// nothing.
func (m *Manifest) apply(patches []*patch) *Manifest {
	if len(patches) == 0 {
		return m
	}
	here := map[string]*Node{}
	var gone []string
	for _, p := range patches {
		now := topmost(p.Gone)
		for q := range here {
			if covers(now, q) {
				delete(here, q)
			}
		}
		for i := range p.Here {
			here[p.Here[i].Path] = &p.Here[i]
		}
		gone = append(gone, now...)
	}
	gone = topmost(gone)
	out := &Manifest{Root: m.Root, Started: m.Started, RootUnsure: m.RootUnsure, Nodes: make([]Node, 0, len(m.Nodes)+len(here))}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if _, ok := here[n.Path]; !ok && !covers(gone, n.Path) {
			out.Nodes = append(out.Nodes, *n)
		}
	}
	for _, n := range here {
		out.Nodes = append(out.Nodes, *n)
	}
	slices.SortFunc(out.Nodes, func(a, b Node) int { return overlay.ComparePaths(a.Path, b.Path) })
	return out
}

// topmost sorts paths and leaves out those that lie below another.
func topmost(paths []string) []string {
	sorted := slices.SortedFunc(slices.Values(paths), overlay.ComparePaths)
	out := sorted[:0]
	for _, p := range sorted {
		if len(out) == 0 || !below(p, out[len(out)-1]) {
			out = append(out, p)
		}
	}
	return out
}

// covers reports whether p lies in one of the trees, which topmost made.
func covers(trees []string, p string) bool {
	i, ok := slices.BinarySearchFunc(trees, p, overlay.ComparePaths)
	return ok || (i > 0 && below(p, trees[i-1]))
}
