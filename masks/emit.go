package masks

import (
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/hostpath"
)

// emit puts everything in order.
func (p *planner) emit() Plan {
	p.emitInputs()
	p.emitCovers(Mask)
	p.emitShowings(p.carves, CarveOut, BindRW)
	p.emitPins()
	p.emitLinkPins()
	p.emitCovers(FinalMask)
	p.emitRuntime()
	slices.SortStableFunc(p.plan.Steps, func(a, b Step) int {
		if d := int(a.Phase) - int(b.Phase); d != 0 {
			return d
		}
		return comparePaths(a.Path, b.Path)
	})
	slices.SortFunc(p.plan.Placeholders, comparePlaceholders)
	p.plan.Placeholders = slices.Compact(p.plan.Placeholders)
	slices.Sort(p.plan.Warnings)
	slices.SortFunc(p.plan.Unmatched, func(a, b Rule) int { return comparePaths(a.Path, b.Path) })
	slices.SortFunc(p.plan.Links, func(a, b Link) int { return comparePaths(a.Path, b.Path) })
	p.plan.in, p.plan.links, p.plan.gone = p.in, p.t.links, p.gone
	return p.plan
}

func comparePlaceholders(a, b Placeholder) int {
	if d := comparePaths(a.View, b.View); d != 0 {
		return d
	}
	if d := strings.Compare(a.Path, b.Path); d != 0 {
		return d
	}
	return int(a.Kind) - int(b.Kind)
}

func (p *planner) emitInputs() {
	for _, s := range p.nested {
		if !s.view {
			continue
		}
		info, err := p.t.lstat(s.source)
		if err != nil {
			p.warn(s.rule, "cannot be looked at: %v", err)
			continue
		}
		s.info = info
		p.emitShowings([]*showing{s}, ReadOnlyInput, BindRO)
	}
	p.emitShowings(p.inputs, ReadOnlyInput, BindRO)
}

func (p *planner) emitShowings(list []*showing, phase Class, op Op) {
	for _, s := range list {
		step := Step{Phase: phase, Op: op, Path: s.path, Kind: KindDir, Source: s.source, SourceID: s.info.ID, Rule: s.rule}
		if s.info.Type != Dir && s.info.Type != Missing {
			step.Kind = KindFile
		}
		if s.view {
			step.Op = ViewRO
		}
		p.plan.Steps = append(p.plan.Steps, step)
		p.place(s.path, step.Kind)
	}
}

func (p *planner) emitCovers(phase Class) {
	for _, c := range p.sorted() {
		if c.phase != phase {
			continue
		}
		step := Step{Phase: phase, Op: Cover, Path: c.path, Kind: c.kind, Missing: c.missing(), Rule: c.rule}
		if c.link() {
			step.Op = CoverLink
		}
		for _, s := range p.inside[c.path] {
			step.Inside = append(step.Inside, Placeholder{Path: hostpath.Rel(s, c.path), Kind: p.kindAt(s)})
		}
		slices.SortFunc(step.Inside, comparePlaceholders)
		p.plan.Steps = append(p.plan.Steps, step)
		if innermost(p.carves, c.path) == nil {
			p.place(c.path, c.kind)
		}
	}
}

// kindAt tells whether a carve-out or runtime input is a file or a directory.
func (p *planner) kindAt(path string) Kind {
	for _, s := range slices.Concat(p.carves, p.runtime) {
		if s.path == path && s.info.Type == File {
			return KindFile
		}
	}
	return KindDir
}

// place adds the placeholder of a mountpoint to the view it lies in, unless something
// laid over that view has it.
func (p *planner) place(path string, kind Kind) {
	dir := parent(path)
	if c := p.coverAt(dir); c != nil && len(p.inside[c.path]) > 0 {
		return
	}
	if innermost(p.carves, dir) != nil {
		return
	}
	view := ""
	for _, v := range p.in.views() {
		if below(path, v) && len(v) > len(view) {
			view = v
		}
	}
	for _, s := range slices.Concat(p.nested, p.inputs) {
		if !below(path, s.path) || len(s.path) <= len(view) {
			continue
		}
		if !s.view {
			return
		}
		view = s.path
	}
	if view != "" {
		p.plan.Placeholders = append(p.plan.Placeholders, Placeholder{View: view, Path: hostpath.Rel(path, view), Kind: kind})
	}
}

// emitPins holds the directories between a writable carve-out and a mask inside it.
func (p *planner) emitPins() {
	done := map[string]bool{}
	for _, c := range p.sorted() {
		carve := innermost(p.carves, c.path)
		if carve == nil || c.phase != FinalMask {
			continue
		}
		for dir := parent(c.path); below(dir, carve.path) && !done[dir]; dir = parent(dir) {
			done[dir] = true
			p.plan.Steps = append(p.plan.Steps, Step{Phase: FinalMask, Op: Pin, Path: dir, Kind: KindDir, Rule: c.rule})
		}
	}
}

// emitLinkPins holds the links of the views by which a hidden path has another name, so
// that nothing else comes to be under that.
func (p *planner) emitLinkPins() {
	done := map[string]bool{}
	for _, c := range p.sorted() {
		for _, link := range c.via {
			if done[link] || !p.inView(link) || p.covers[link] != nil || p.coverAt(link) != nil || innermost(p.carves, link) != nil {
				continue
			}
			done[link] = true
			p.plan.Steps = append(p.plan.Steps, Step{Phase: Mask, Op: Pin, Path: link, Kind: KindFile, Rule: c.rule})
		}
	}
}

// emitRuntime shows the runtime inputs and hides the credentials inside them.
func (p *planner) emitRuntime() {
	for _, s := range p.runtime {
		for _, c := range p.all {
			if below(c.path, s.source) {
				p.hideInside(s, c.rule, c.path)
			}
		}
		for _, r := range p.rules {
			if r.Class == RuntimeMask && below(r.Path, s.path) {
				p.hideInside(s, r, s.source+r.Path[len(s.path):])
			}
		}
		p.emitShowings([]*showing{s}, RuntimeInput, BindRO)
	}
}

func (p *planner) hideInside(s *showing, r Rule, source string) {
	info, err := p.t.lstat(source)
	if err != nil {
		return
	}
	s.view = true
	rel := source[len(s.source)+1:]
	step := Step{
		Phase: RuntimeMask, Op: Cover, Path: join(s.path, rel),
		Kind: p.kindOf(r, place{path: source, info: info}), Missing: info.Type == Missing, Rule: r,
	}
	if info.Type == Symlink {
		step.Op = CoverLink
	}
	p.plan.Steps = append(p.plan.Steps, step)
	p.plan.Placeholders = append(p.plan.Placeholders, Placeholder{View: s.path, Path: rel, Kind: step.Kind})
}
