package masks

import (
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/hostpath"
)

// How much of the host's tree is looked at for further names of a hidden file: below
// each hidden directory at every start, upper levels first, where keys lie; and, only
// if some hidden file has another link, below HOME, project and inputs. An entry costs
// some 2 µs, so the first is a few milliseconds at most, the second a few seconds.
const (
	aliasDirLimit = 1024
	aliasLimit    = 1 << 20
)

// findAliases refuses a plan in which a hidden file could be reached by another name:
// a hard link, or a second mount of its file system.
func (p *planner) findAliases() {
	p.findHardLinks()
	p.findMountAliases()
}

func (p *planner) findHardLinks() {
	q := AliasQuery{Files: map[string]Info{}, DirLimit: aliasDirLimit, Limit: aliasLimit, Skip: p.t.hidden}
	for _, c := range p.sorted() {
		carve := innermost(p.carves, c.path)
		switch {
		case p.inBase(c.path) || carve != nil && carve.rule.Target != "":
		case c.info.Type == Dir:
			q.Dirs = append(q.Dirs, c.path)
		case c.info.Type == File && c.info.Nlink > 1:
			q.Files[c.path] = c.info
		}
	}
	if len(q.Files) == 0 && len(q.Dirs) == 0 {
		return
	}
	q.Roots = p.visibleRoots()
	found, err := p.t.host.Aliases(q)
	if err != nil {
		p.errs = append(p.errs, err)
		return
	}
	for _, l := range found.Links {
		p.refuse(p.coverAt(l.Hidden).rule, "hides %s, but %s is a hard link to the same file; remove that link or hide it too", l.Hidden, l.Visible)
	}
	for _, u := range found.Unsure {
		p.refuse(p.coverAt(u).rule, "hides %s, which has further hard links that were not found; find them with: find %s -xdev -samefile %s", u, p.in.Home, u)
	}
}

// visibleRoots are the host directories of which a session sees something.
func (p *planner) visibleRoots() []string {
	out := p.in.views()
	for _, s := range slices.Concat(p.inputs, p.carves, p.runtime) {
		if s.rule.Target == "" && s.info.Type == Dir {
			out = append(out, s.source)
		}
	}
	slices.SortFunc(out, comparePaths)
	return slices.Compact(out)
}

// region is a piece of a file system that a session sees at path.
type region struct {
	dev  uint64
	root string // where in the file system
	path string
}

// findMountAliases compares where in its file system a hidden path lies with what
// else of that file system the session sees.
func (p *planner) findMountAliases() {
	regions := p.regions()
	if len(regions) == 0 {
		return
	}
	for _, c := range p.sorted() {
		m := containing(p.in.Mounts, c.path)
		if m == nil || p.inBase(c.path) {
			continue
		}
		in, done := m.at(c.path), map[string]bool{}
		for _, r := range regions {
			if r.dev != m.Dev {
				continue
			}
			alias := ""
			switch {
			case Within(in, r.root):
				alias = r.path + strings.TrimPrefix(in, strings.TrimSuffix(r.root, "/"))
			case below(r.root, in):
				alias = r.path
			}
			if alias == "" || alias == c.path || done[alias] || p.coverAt(alias) != nil || p.overView(alias) {
				continue // hidden too, or what the session is about
			}
			done[alias] = true
			p.refuse(c.rule, "hides %s, but a second mount shows the same at %s; unmount that or hide it too", c.path, alias)
		}
	}
}

// overView reports whether path is the root of a view or above one.
func (p *planner) overView(path string) bool {
	return slices.ContainsFunc(p.in.views(), func(v string) bool { return Within(v, path) })
}

// regions lists what the session sees of each file system. It is empty unless some
// file system is seen in two places.
func (p *planner) regions() []region {
	var out []region
	for _, root := range p.visibleRoots() {
		if m := containing(p.in.Mounts, root); m != nil && !m.Hidden {
			out = append(out, region{m.Dev, m.at(root), root})
		}
	}
	for _, m := range p.in.Mounts {
		if !m.Hidden && slices.ContainsFunc(p.visibleRoots(), func(r string) bool { return below(m.Point, r) }) {
			out = append(out, region{m.Dev, m.Root, m.Point})
		}
	}
	return out
}

// containing returns the mount that path lies in: the deepest, of two at one point the
// later.
func containing(mounts []Mount, path string) *Mount {
	var found *Mount
	for i, m := range mounts {
		if Within(path, m.Point) && (found == nil || len(m.Point) >= len(found.Point)) {
			found = &mounts[i]
		}
	}
	return found
}

// at tells where in the file system path lies, which is below the mountpoint.
func (m *Mount) at(path string) string {
	if path == m.Point {
		return m.Root
	}
	return join(m.Root, hostpath.Rel(path, m.Point))
}
