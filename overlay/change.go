package overlay

import (
	"errors"

	"github.com/sbxd/sbxd/internal/safefs"
)

// Type is the kind of a directory entry.
type Type uint8

// The kinds. None is the type of nothing: the base side of an added path.
const (
	None Type = iota
	File
	Dir
	Symlink
	FIFO
	Socket
	Device
)

var typeNames = [...]string{"none", "file", "dir", "symlink", "fifo", "socket", "device"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "invalid"
}

// Op says how a path of the view differs from the base.
type Op uint8

// The differences. Modify covers bytes, link targets and changes of type; Mode
// and Attr are for entries whose bytes are those of the base.
const (
	Same   Op = iota // in the upper, but equal to the base; only with Options.KeepSame
	Add              // the base has nothing here
	Modify           // other bytes, another target, or another type (Was != Type)
	Mode             // permission or set-id bits only
	Attr             // user.* extended attributes only
	Delete           // the view has nothing here
)

var opNames = [...]string{"same", "add", "modify", "mode", "attr", "delete"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "invalid"
}

// Change is one path of the view that differs from the base. A set of changes
// is complete by path: a directory that went has a Delete for itself and for
// each entry the base has below it, a new one has an Add for each.
type Change struct {
	Path string // relative to the view, '/' between names; a name is any bytes but NUL and '/'
	Op   Op
	Type Type // what the view has; for Delete what the base has
	Was  Type // what the base has; None for Add

	Mode    uint32 // permission, set-id and sticky bits (07777) of the view's entry; of the base's for Delete
	WasMode uint32 // the same of the base's entry
	Size    int64  // bytes, regular files and links only
	Target  string // of a symlink
	Rdev    uint64 // of a device
	MTime   safefs.Time

	Dev, Ino uint64 // of the upper's entry; 0 for Delete
	Nlink    uint32 // names of that inode in the upper, also outside of this set
	Link     string // the first path of this set with the same inode, if it is not this one
	Split    bool   // the base's file has further names, which keep the old bytes

	Xattrs map[string][]byte // user.* of the upper's entry, without marks of overlays
	Others []string          // names of its further attributes: ACLs, security.*; sorted

	// CopiedUp says that the entry began as a copy of one that the base had when it was
	// first written to, here or where it was renamed from. The kernel marks most such
	// files, but not those with several names.
	CopiedUp bool

	From string // the path it was renamed from, where that is certain
	Hint string // a deleted path with the same bytes: likely, never certain
}

// Mark is something in an upper that looks like a mark of an overlay and was
// not obeyed.
type Mark struct {
	Path string
	What string // the kind, one of the Mark constants
	Name string // the attribute's name, if it is one
}

// Kinds of marks.
const (
	MarkForeign  = "foreign-overlay-xattr" // an attribute of another overlay's format
	MarkEscaped  = "escaped-overlay-xattr" // set by the agent, stored with the kernel's escape
	MarkUnknown  = "unknown-overlay-xattr" // in our name space, with no meaning known here
	MarkValue    = "overlay-xattr-value"   // a known name with a value we never write
	MarkMisplace = "overlay-xattr-place"   // a known name on the wrong type of entry
	MarkXattrWh  = "xattr-whiteout"        // obeyed as the kernel does, but written by no backend of ours
)

// Set is what one upper says.
type Set struct {
	Changes []Change // in path order (ComparePaths)
	Forged  []Mark
	// Opaque are the directories that hide all that the base has there, also
	// what appears in it later. Their deletions are among the changes.
	Opaque []string
	// Masked are paths left out because Options.Masked covers them, or lies
	// below them.
	Masked []string
	Same   int // entries of the upper that equal the base
}

// Options changes what is reported. The zero value is the safe default.
type Options struct {
	// Masked are paths that are never reported, with all below them. A
	// directory of the base that holds one is never reported as deleted.
	Masked []string
	// Hidden reports whether a path is hidden by its name, nil none is: it is as if
	// it were in Masked. Nothing below one that is has to be reported.
	Hidden func(path string) bool
	// Placeholders are paths that exist in the view only to carry a mask.
	// Where the base has nothing, they and their ancestors are reported only
	// if something else is in them.
	Placeholders []string
	// KeepSame also reports entries of the upper that equal the base, as Same.
	KeepSame bool
	// Hints looks for renames by equal bytes.
	Hints bool
	// MaxEntries and MaxDepth lower the bounds below; 0 keeps them.
	MaxEntries, MaxDepth int
}

const (
	// MaxEntries bounds the entries visited in upper and base together: more
	// than any checkout, less than fills the memory of a small host (about
	// 300 bytes each).
	MaxEntries = 2_000_000
	// MaxDepth bounds nesting: a path of 4,096 bytes has at most 2,048 names.
	MaxDepth = 2_048
)

// Errors that callers ask for.
var (
	// ErrUnsupportedUpper is an upper with marks that only a mount with other
	// options writes (redirect, metacopy, index).
	ErrUnsupportedUpper = errors.New("upper has marks this format does not allow")
	// ErrTooMany and ErrTooDeep are the bounds of Options.
	ErrTooMany = errors.New("too many entries")
	ErrTooDeep = errors.New("too deep")
	// ErrNoAccess is an entry of the upper that its owner may not read, such as
	// a directory of mode 000.
	ErrNoAccess = errors.New("the session left it unreadable: decode in a user namespace with CAP_DAC_OVERRIDE")
)
