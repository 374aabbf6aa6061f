package land

import (
	"cmp"
	"slices"

	"github.com/sbxd/sbxd/overlay"
)

// ops makes one step of each topmost path that is taken.
func (p *planner) ops() {
	done := ""
	for i := range p.items {
		it := &p.items[i]
		if done != "" && below(it.Path, done) {
			if p.verdicts[i] == take && it.Op != overlay.Delete {
				p.notes(it, nil)
			}
			continue
		}
		done = ""
		switch p.verdicts[i] {
		case already:
			p.plan.Already = append(p.plan.Already, it.Path)
			p.settle(it)
		case take:
			if op := p.op(i); op.Kind != Chmod {
				done = it.Path
			}
		}
	}
}

// settle makes the base go on where the project got there by itself.
func (p *planner) settle(it *Item) {
	op := Op{Kind: Settle, Path: it.Path}
	if t := p.now.Nodes[it.Path]; t != nil {
		op.New = []Node{*t}
	}
	p.plan.Ops = append(p.plan.Ops, op)
}

// op makes the step of item i, whose side is taken.
func (p *planner) op(i int) Op {
	it, t := &p.items[i], p.now.Nodes[p.items[i].Path]
	op := Op{Path: it.Path}
	switch o := it.node(); {
	case o == nil:
		op.Kind, op.Old = Remove, p.now.tree(it.Path, p.order)
	case t == nil:
		op.Kind, op.New = Create, p.made(i)
	case o.Type == overlay.Dir && t.Type == overlay.Dir,
		it.Op == overlay.Mode && t.Type == o.Type:
		if o.Type == overlay.File && !sameXattrs(t, o) {
			p.plan.Held = append(p.plan.Held, Held{Path: it.Path, Reason: HeldXattr, Detail: "user.*", Count: 1})
		}
		to := *t
		to.Mode = t.Mode&setIDBits | o.Mode&permBits
		op.Kind, op.Old, op.New = Chmod, []Node{*t}, []Node{to}
	default:
		op.Kind, op.Old, op.New = Replace, p.now.tree(it.Path, p.order), p.made(i)
		if mode, ok := p.kept[it.Path]; ok {
			op.Mode, op.OtherMode = mode, true
		}
	}
	p.notes(it, &op)
	p.plan.Ops = append(p.plan.Ops, op)
	return op
}

// made lists the tree that the session has at item i.
func (p *planner) made(i int) []Node {
	top := p.items[i].Path
	var out []Node
	for ; i < len(p.items) && below(p.items[i].Path, top); i++ {
		if n := p.items[i].node(); n != nil && p.verdicts[i] == take {
			out = append(out, *n)
		}
	}
	return out
}

// notes says what a reviewer should know of a path that lands.
func (p *planner) notes(it *Item, op *Op) {
	add := func(kind, what string) {
		p.plan.Notices = append(p.plan.Notices, Notice{Path: it.Path, Kind: kind, What: what})
	}
	if it.Op != overlay.Delete && it.Type == overlay.Symlink && leaves(p.project, it.Path, it.Target) {
		add(NoteLink, "the link leads out of the project, to "+Quote(it.Target))
	}
	if op == nil || op.Kind != Replace {
		return
	}
	if t := &op.Old[0]; t.Type == overlay.File {
		if t.Nlink > 1 {
			add(NoteSplit, "other names of this file keep the old bytes")
		}
		if t.UID != p.now.Root.UID {
			add(NoteOwner, "the file belonged to another user than the project")
		}
	}
}

// sort puts the steps into the order in which they are done: directories are
// opened before, and closed after, what is done in them; names go before others
// come, for file systems that ignore case.
func (p *planner) sort() {
	slices.SortStableFunc(p.plan.Ops, func(a, b Op) int {
		return cmp.Or(cmp.Compare(phase(&a), phase(&b)), overlay.ComparePaths(a.Path, b.Path))
	})
	slices.SortStableFunc(p.plan.Conflicts, func(a, b Conflict) int { return overlay.ComparePaths(a.Path, b.Path) })
}

func phase(op *Op) int {
	const enter = 0o300
	switch op.Kind {
	case Chmod:
		if o := &op.Old[0]; o.Type == overlay.Dir && o.Mode&enter != enter && op.New[0].Mode&enter == enter {
			return 0
		}
		return 4
	case Remove:
		return 1
	case Replace:
		return 2
	case Create:
		return 3
	default:
		return 5
	}
}
