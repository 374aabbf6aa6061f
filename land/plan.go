package land

import (
	"slices"

	"github.com/sbxd/sbxd/overlay"
)

// OpKind is what is done to one path of the project.
type OpKind uint8

// The kinds. Each but Settle is one system call that works whole or not at all.
const (
	Create  OpKind = iota // nothing is there: the new tree is moved in
	Replace               // the new tree and what is there change places
	Remove                // what is there is moved out
	Chmod                 // permission bits only; bytes and times stay
	Settle                // the project has it already: only the base goes on
)

var opNames = [...]string{"create", "replace", "remove", "chmod", "settle"}

func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return "invalid"
}

// Op is one step of a plan. The paths of a plan's Create, Replace and Remove are
// prefix-free: no step's tree holds another step's path.
type Op struct {
	Kind OpKind
	Path string
	New  []Node // the tree that will be there, itself first; empty for Remove
	Old  []Node // the tree that is there now, itself first; empty for Create
	// Mode is the mode that the session has where the landing keeps the host's: the
	// base goes on with it. It holds if OtherMode.
	Mode      uint32
	OtherMode bool
}

// Conflict is a path that both sides changed, so that neither can be taken.
type Conflict struct {
	Path string
	Kind string // one of the Conflict constants
	What string // one line for a person
}

// Kinds of conflicts.
const (
	ConflictContent   = "content"            // both changed the bytes
	ConflictAdd       = "add/add"            // both made it, differently
	ConflictDelete    = "delete/edit"        // the session removed what the host changed
	ConflictEdit      = "edit/delete"        // the session changed what the host removed
	ConflictType      = "type"               // one side made it another kind of entry
	ConflictMode      = "mode"               // both changed the mode, differently
	ConflictNotEmpty  = "dir-not-empty"      // the host put something into a directory that is to go
	ConflictOpaque    = "opaque-hides-new"   // the session made the directory anew and never saw this
	ConflictParent    = "parent"             // the directory it belongs in is none any more
	ConflictMount     = "mount"              // something is mounted there
	ConflictHeld      = "held-below"         // a directory is to become something else but holds what never lands
	ConflictCase      = "case"               // the file system takes two names for one
	ConflictMoving    = "moving"             // the host is writing it at this moment
	ConflictStartEdit = "changed-near-start" // the host may have changed it when the session began
)

// Plan is what a landing does, and what stands against it. With a conflict
// nothing is done.
type Plan struct {
	Ops       []Op // in the order in which they are done
	Conflicts []Conflict
	Notices   []Notice
	Held      []Held   // found while planning: directories that stay for what is in them
	Already   []string // paths that the project has in just this form
}

// Counts are the paths of a plan by what happens to them.
type Counts struct {
	Added    int `json:"added"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"`
	Mode     int `json:"mode"`
}

// Count counts every path, also those within a tree that is moved as one.
func (p *Plan) Count() Counts {
	var c Counts
	for i := range p.Ops {
		op := &p.Ops[i]
		switch op.Kind {
		case Create:
			c.Added += len(op.New)
		case Replace:
			c.Modified++
			c.Added += len(op.New) - 1
			c.Deleted += len(op.Old) - 1
		case Remove:
			c.Deleted += len(op.Old)
		case Chmod:
			c.Mode++
		}
	}
	return c
}

// empty reports whether nothing would be done.
func (p *Plan) empty() bool {
	return !slices.ContainsFunc(p.Ops, func(o Op) bool { return o.Kind != Settle })
}

// Now is what the project has at the paths of a changeset and in the trees that
// would go. It is the third side of the comparison.
type Now struct {
	Root    Node             // the project itself
	Nodes   map[string]*Node // nothing is there where a path is missing
	Blocked map[string]Block // by directory: why nothing can be in it
	Folds   map[string]bool  // directories that take names of another case for the same
	Alias   map[string]string
	// Moving are paths that changed while they were read.
	Moving []string
}

// Block says which ancestor of a path is no directory that can be entered.
type Block struct {
	At   string // the ancestor
	What string // missing, symlink, file, mount, denied
}

// tree lists what the project has at p and below, as far as it was looked at.
func (n *Now) tree(p string, order []string) []Node {
	i, _ := slices.BinarySearchFunc(order, p, overlay.ComparePaths)
	var out []Node
	for ; i < len(order) && below(order[i], p); i++ {
		out = append(out, *n.Nodes[order[i]])
	}
	return out
}

// paths lists all that was seen, in path order.
func (n *Now) paths() []string {
	out := make([]string, 0, len(n.Nodes))
	for p := range n.Nodes {
		out = append(out, p)
	}
	slices.SortFunc(out, overlay.ComparePaths)
	return out
}
