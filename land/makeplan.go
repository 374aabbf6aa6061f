package land

import (
	"slices"
	"strings"

	"github.com/sbxd/sbxd/overlay"
)

// MakePlan compares what a session changed with its base and with the project as
// it is now. It is pure: the same three sides give the same plan. project is the
// project's path, by which links are judged; opaque are directories whose content
// the session replaced as a whole.
func MakePlan(project string, items []Item, opaque []string, base *Manifest, now *Now) *Plan {
	p := &planner{
		project: project, items: slices.Clone(items), at: make(map[string]int, len(items)),
		verdicts: make([]verdict, len(items)), base: base, now: now, order: now.paths(),
		opaque: map[string]bool{}, kept: map[string]uint32{}, plan: &Plan{},
	}
	for i := range p.items {
		p.at[p.items[i].Path] = i
	}
	for _, d := range opaque {
		p.opaque[d] = true
	}
	for i := range p.items {
		p.judge(i)
	}
	p.extras()
	p.parents()
	p.cases()
	p.ops()
	p.sort()
	return p.plan
}

type planner struct {
	project  string
	items    []Item
	at       map[string]int // index of an item by path
	verdicts []verdict      // of each item
	base     *Manifest
	now      *Now
	order    []string // paths of now
	opaque   map[string]bool
	kept     map[string]uint32 // modes of the session where the host's are kept
	plan     *Plan
}

func (p *planner) clash(path, kind, what string) {
	p.plan.Conflicts = append(p.plan.Conflicts, Conflict{Path: path, Kind: kind, What: what})
	if i, ok := p.at[path]; ok {
		p.verdicts[i] = clash
	}
}

// judge compares the three sides of one item.
func (p *planner) judge(i int) {
	it := &p.items[i]
	s := sides{base: p.base.find(it.Path), now: p.now.Nodes[it.Path], session: it.node()}
	if block, ok := p.now.Blocked[parentOf(it.Path)]; ok && block.What != blockMissing && s.session != nil && !p.makesDir(block.At) {
		if block.What == blockMount {
			p.clash(it.Path, ConflictMount, Quote(block.At)+" is on another mount; land cannot reach it")
			return
		}
		p.clash(it.Path, ConflictParent, Quote(block.At)+" is a "+block.What+" in the project now")
		return
	}
	switch {
	case slices.Contains(p.now.Moving, it.Path):
		p.clash(it.Path, ConflictMoving, "the host is writing it at this moment")
	case s.agree():
		p.verdicts[i] = already
	case s.now != nil && s.now.Mount:
		p.clash(it.Path, ConflictMount, "something is mounted there")
	case p.sharesMode(it, s):
		p.clash(it.Path, ConflictMode, "the host gave the file another name, which would get the mode, too")
	case s.base == nil && s.now == nil && it.CopiedUp && p.base.mayMiss(it.Path):
		p.clash(it.Path, ConflictStartEdit, "the host may have removed it just when the session began")
	case s.hostKept():
		p.verdicts[i] = take
		if it.Op == overlay.Mode && s.now.Type == overlay.File && s.now.Nlink > 1 {
			it.Op = overlay.Modify // a copy takes the mode: the other names keep theirs
		}
	default:
		if mode, bytes, ok := s.combine(it.Op); ok {
			p.verdicts[i] = take
			if bytes {
				p.kept[it.Path] = it.Mode
				it.Mode = mode
			}
			return
		}
		kind, what := s.why()
		p.clash(it.Path, kind, what)
	}
}

// sharesMode reports whether a file whose mode alone is to change has other names,
// perhaps outside of the project, and no copy that could take its place.
func (p *planner) sharesMode(it *Item, s sides) bool {
	return it.Op == overlay.Mode && s.now != nil && s.now.Type == overlay.File && s.now.Nlink > 1 &&
		(!it.Split || !s.hostKept())
}

// makesDir reports whether the session has a directory at a path of the changeset.
func (p *planner) makesDir(path string) bool {
	i, ok := p.at[path]
	return ok && p.items[i].Op != overlay.Delete && p.items[i].Type == overlay.Dir
}

// extras looks at what the project has in directories that would go or were made
// anew, and that the session says nothing of.
func (p *planner) extras() {
	for _, q := range p.order {
		if _, isItem := p.at[q]; !isItem {
			p.extra(q)
		}
	}
}

// extra finds the directory that decides about q: the nearest one that goes, or
// that hides what the session never saw.
func (p *planner) extra(q string) {
	reason, _ := neverLands(q)
	for a := parentOf(q); ; a = parentOf(a) {
		i, isItem := p.at[a]
		goes := isItem && (p.items[i].Op == overlay.Delete || p.items[i].Type != overlay.Dir)
		switch {
		case goes && reason != "":
			p.stay(i, q, reason)
			return
		case !goes && p.opaque[a] && p.base.find(q) != nil:
			return // the session has it, too, as it was
		case goes || (p.opaque[a] && reason == ""):
			if p.isExtra(parentOf(q), a) || (isItem && p.verdicts[i] == clash) {
				return // named already
			}
			if goes {
				p.clash(q, ConflictNotEmpty, "the host put it into "+Quote(a)+", which the session removed")
			} else {
				p.clash(q, ConflictOpaque, "the host put it into "+Quote(a)+", which the session made anew")
			}
			return
		case a == "":
			return
		}
	}
}

// isExtra reports whether q, in the tree at top, is itself something that neither
// base nor session know.
func (p *planner) isExtra(q, top string) bool {
	_, item := p.at[q]
	return q != top && !item && p.now.Nodes[q] != nil && p.base.find(q) == nil
}

// stay keeps the directory of item i, and those it lies in, which the session
// removed but which hold q, that never lands.
func (p *planner) stay(i int, q, reason string) {
	for a := p.items[i].Path; a != ""; a = parentOf(a) {
		j, ok := p.at[a]
		switch {
		case !ok || (p.items[j].Op != overlay.Delete && p.items[j].Type == overlay.Dir):
			return
		case p.items[j].Op != overlay.Delete:
			if p.verdicts[j] == take {
				p.clash(a, ConflictHeld, "it holds "+Quote(q)+", which never lands; remove that by hand first")
			}
			return
		case p.verdicts[j] == take:
			p.verdicts[j] = keep
			p.plan.Held = append(p.plan.Held, Held{Path: a, Reason: HeldInside, Detail: reason, Count: 1})
		}
	}
}

// parents refuses what has no directory to be put into.
func (p *planner) parents() {
	for i := range p.items {
		it := &p.items[i]
		if p.verdicts[i] != take || it.Op == overlay.Delete {
			continue
		}
		dir := parentOf(it.Path)
		if j, ok := p.at[dir]; ok && p.verdicts[j] == take {
			if it := &p.items[j]; it.Op == overlay.Delete || it.Type != overlay.Dir {
				p.clash(p.items[i].Path, ConflictParent, Quote(dir)+" is no directory any more")
			}
			continue
		}
		if block, ok := p.now.Blocked[dir]; ok && !p.failed(dir) {
			p.clash(it.Path, ConflictParent, "the host removed "+Quote(block.At))
		}
	}
}

// failed reports whether dir or a directory it lies in is in conflict already.
func (p *planner) failed(dir string) bool {
	for ; dir != ""; dir = parentOf(dir) {
		if i, ok := p.at[dir]; ok && p.verdicts[i] == clash {
			return true
		}
	}
	return false
}

// cases refuses names that the file system of the project takes for one.
func (p *planner) cases() {
	made := map[string]string{} // folded path: path
	for i := range p.items {
		it := &p.items[i]
		if p.verdicts[i] != take || it.Op == overlay.Delete {
			continue
		}
		if q, ok := p.now.Alias[it.Path]; ok {
			if j, ok := p.at[q]; !ok || p.verdicts[j] != take || p.items[j].Op != overlay.Delete {
				p.clash(it.Path, ConflictCase, "the project's file system takes it for "+Quote(q))
				continue
			}
		}
		if !p.folds(parentOf(it.Path)) {
			continue
		}
		key := join(parentOf(it.Path), strings.ToLower(baseOf(it.Path)))
		if q, ok := made[key]; ok {
			p.clash(it.Path, ConflictCase, "the project's file system takes it for "+Quote(q))
			continue
		}
		made[key] = it.Path
	}
}

// folds reports whether dir ignores case; a new directory takes after its parent.
func (p *planner) folds(dir string) bool {
	for {
		if f, ok := p.now.Folds[dir]; ok || dir == "" {
			return f
		}
		dir = parentOf(dir)
	}
}
