package masks

import (
	"slices"
	"strings"
)

// settle decides between masks and carve-outs: a mask inside a carve-out becomes a
// final one, so that it holds; one at or below an agent's own directory has nothing
// left to hide.
func (p *planner) settle() {
	p.gone = map[string]*cover{}
	for _, c := range p.sorted() {
		carve := innermost(p.carves, c.path)
		if c.link() && c.phase == Mask && p.leadsToOwn(c.path) {
			p.gone[c.path] = c
			delete(p.covers, c.path)
			continue
		}
		if carve == nil {
			continue
		}
		private := carve.rule.Target != ""
		switch {
		case private && c.phase == Mask:
			p.gone[c.path] = c
			delete(p.covers, c.path)
		case private:
			p.settlePrivate(carve, c)
		case c.phase == Mask && (c.rule.From == fromBuiltin || c.path == carve.path):
			p.refuse(carve.rule, "would expose %s, which is hidden (%s, %s)", c.path, c.rule.Path, c.rule.From)
		default:
			c.phase = FinalMask
			if c.missing() {
				p.refuse(c.rule, "does not exist, but lies in the writable %s (%s), where what appears later could not be hidden; create it first, or hide the directory above it", carve.path, carve.rule.From)
			}
		}
	}
	p.refuseHidden()
}

// leadsToOwn reports whether an agent's own directory is reached through link.
func (p *planner) leadsToOwn(link string) bool {
	return slices.ContainsFunc(p.carves, func(s *showing) bool { return slices.Contains(s.via, link) })
}

// settlePrivate looks a final mask up in the agent's own directory, which is what the
// session sees in that place.
func (p *planner) settlePrivate(carve *showing, c *cover) {
	info, err := p.t.lstat(carve.source + strings.TrimPrefix(c.path, carve.path))
	if err != nil {
		p.refuse(c.rule, "cannot be looked at in %s: %v", carve.source, err)
		return
	}
	c.info = info
	switch info.Type {
	case Missing:
	case Dir:
		c.kind = KindDir
	default:
		c.kind = KindFile
	}
}

// refuseHidden refuses inputs and carve-outs that could never be seen.
func (p *planner) refuseHidden() {
	for _, s := range p.inputs {
		if c := p.coverAt(s.path); c != nil {
			p.refuse(s.rule, "would show nothing: %s is hidden (%s, %s)", c.path, c.rule.From, describe(c.rule))
		}
	}
	for _, s := range p.carves {
		if c := p.coverAt(s.path); c != nil && c.phase == FinalMask && c.path != s.path {
			p.refuse(s.rule, "would show nothing: %s is hidden for good (%s)", c.path, c.rule.From)
		}
	}
}

func describe(r Rule) string {
	if r.Why == "" {
		return r.Path
	}
	return r.Why
}

// coverAt returns the cover of path or of a directory above it, or nil.
func (p *planner) coverAt(path string) *cover {
	for ; path != "/"; path = parent(path) {
		if c := p.covers[path]; c != nil && !c.link() {
			return c
		}
	}
	return nil
}

// reduce drops the covers that an outer one makes redundant, notes the mountpoints
// that outer ones have to offer, and which inputs have to become views.
func (p *planner) reduce() {
	p.inside = map[string][]string{}
	for _, c := range p.sorted() {
		outer := p.coverAbove(c)
		if outer != nil {
			delete(p.covers, c.path)
		}
	}
	for _, s := range slices.Concat(p.carves, p.runtime) {
		c := p.coverAt(parent(s.path))
		carve := innermost(p.carves, parent(s.path))
		if c != nil && c.phase == Mask && (carve == nil || below(c.path, carve.path)) {
			p.inside[c.path] = append(p.inside[c.path], s.path)
			continue
		}
		if s.rule.Target != "" {
			p.needView(parent(s.path))
		}
	}
	for _, c := range p.covers {
		if innermost(p.carves, c.path) == nil {
			p.needView(parent(c.path))
		}
	}
}

// coverAbove returns the cover that already hides c, or nil. A carve-out between the
// two shows c again, unless the outer one is laid after it.
func (p *planner) coverAbove(c *cover) *cover {
	for dir := parent(c.path); dir != "/"; dir = parent(dir) {
		if o := p.covers[dir]; o != nil && !o.link() && (o.phase == FinalMask || innermost(p.carves, c.path) == nil ||
			!below(innermost(p.carves, c.path).path, dir)) {
			return o
		}
	}
	return nil
}

// needView makes a view of the input or nested mount that holds dir: only a view can
// have a mountpoint for what is not there, and keep it.
func (p *planner) needView(dir string) {
	in, nested := innermost(p.inputs, dir), innermost(p.nested, dir)
	if in != nil && (nested == nil || Within(in.path, nested.path)) {
		in.view = true
	} else if nested != nil {
		nested.view = true
	}
}

// innermost returns the deepest of list that holds path, or nil.
func innermost(list []*showing, path string) *showing {
	var found *showing
	for _, s := range list {
		if Within(path, s.path) && (found == nil || len(s.path) > len(found.path)) {
			found = s
		}
	}
	return found
}

// sorted returns the covers that are left, outer before inner.
func (p *planner) sorted() []*cover {
	if p.all == nil {
		for _, c := range p.covers {
			p.all = append(p.all, c)
		}
		slices.SortFunc(p.all, func(a, b *cover) int { return comparePaths(a.path, b.path) })
	}
	out := make([]*cover, 0, len(p.covers))
	for _, c := range p.all {
		if p.covers[c.path] == c {
			out = append(out, c)
		}
	}
	return out
}

// comparePaths orders by depth, then by name.
func comparePaths(a, b string) int {
	if d := strings.Count(a, "/") - strings.Count(b, "/"); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}
