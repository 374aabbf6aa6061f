// Package masks is the path policy of a session: which host paths stay hidden,
// which are read-only, and which few are really writable. It turns rules into an
// ordered list of steps; the holder lays one mount for each and knows no policy.
//
// It knows the built-in table of credentials, the state paths of agent command
// lines, and the shape of the host's tree through the small interface Host. It
// must not know about mounts, processes, configuration files or sessions: it is
// pure, and the same input and host give the same plan.
//
// The order of the phases is the security argument: read-only inputs, then masks,
// then writable carve-outs, then final masks, then runtime inputs and the masks
// inside them. A later step wins, and Make never emits one that would show a path
// which an earlier phase was meant to hide for good.
package masks

import (
	"github.com/sbxd/sbxd/internal/glob"
	"github.com/sbxd/sbxd/internal/hostpath"
)

// Class is what a rule asks for. Its numeric order is the order of the phases.
type Class uint8

// The classes, in the order in which their steps are laid.
const (
	ReadOnlyInput Class = iota + 1 // shown, read-only, live from the host
	Mask                           // hidden
	CarveOut                       // shown and really writable
	FinalMask                      // hidden again, inside carve-outs too
	RuntimeInput                   // trusted, read-only, after every mask (skills, plugins)
	RuntimeMask                    // hidden inside runtime inputs
)

// Kind is whether a path is meant to be a file or a directory. It decides only
// what stands in for a path that does not exist; an existing one is as it is.
type Kind uint8

// The kinds. KindAny of a missing path becomes a file, or a directory when another
// rule lies below it.
const (
	KindAny Kind = iota
	KindFile
	KindDir
)

// Rule is one wish about one path.
type Rule struct {
	Class Class
	// Path is absolute and clean, a host path as somebody spelled it (Parse).
	Path string
	// Pattern makes the rule a mask of all that it matches below Path, whenever it comes
	// to be; nil: the rule is about Path itself.
	Pattern glob.Pattern `json:",omitempty"`
	Kind    Kind
	// From names the origin for people: "built-in", "/etc/sbxd/config.toml:12",
	// "--mask", "agent claude-code".
	From string
	// Why is one phrase for people, may be empty.
	Why string
	// Target is the host path that is shown at Path when it is another one: a
	// directory of sbxd's own for an agent. Only the daemon sets it; it is the one
	// thing that may stand at the place of a built-in credential.
	Target string
	// Optional says that an input or carve-out which does not exist is left out.
	// Otherwise it is an error.
	Optional bool
}

// Credential is a row of the built-in table.
type Credential struct {
	Path   string // "~/…"
	Kind   Kind   // KindFile or KindDir
	Why    string // what is in it
	Source string // where that is documented
}

// HomeMode is how much of the real HOME a session sees.
type HomeMode uint8

// HomeMasked shows the real HOME, copy-on-write, minus the masks. It is the only
// mode so far.
const HomeMasked HomeMode = 0

// Mount is one line of a mount table, as far as aliases need it.
type Mount struct {
	Point  string // mountpoint, absolute
	Root   string // which directory of the file system is mounted there
	Dev    uint64 // major and minor of the file system, as in st_dev
	FSType string
	// Hidden says that sessions do not see what is mounted there, and that it is not
	// to be looked into: it may hang (network, FUSE, automount).
	Hidden bool
}

// Input is everything Make needs to know except the host's tree.
type Input struct {
	// Home and Project are canonical. Project may equal Home; it is never above it.
	Home, Project string
	// HomeSpelled and ProjectSpelled are the same two as the user spells them. Empty
	// means the same.
	HomeSpelled, ProjectSpelled string
	// Views are further roots that are copy-on-write views of their own, such as a
	// mount below HOME. Home and Project always are.
	Views []string
	// Base are the host directories that every session sees read-only (/usr, /etc …).
	Base []string
	// StateDirs are sbxd's own directories and sockets: state root, runtime
	// directory, configuration. They are never exposed; one that lies in a view is
	// covered for good.
	StateDirs []string
	// Rules without the built-in ones, which Make adds.
	Rules    []Rule
	HomeMode HomeMode
	// Mounts is the host's mount table, to find bind aliases of a masked path.
	Mounts []Mount
}

// Op is what the holder does for a step.
type Op uint8

// The operations. All paths are below the session's new root and hold no link.
const (
	// Cover lays an empty read-only file or directory over Path. When Inside is not
	// empty the directory holds just those, as mountpoints of later steps.
	Cover Op = iota + 1
	// CoverLink lays an empty read-only file over the symbolic link Path itself.
	CoverLink
	// BindRO lays the host's Source over Path, read-only, with its submounts.
	BindRO
	// BindRW lays the host's Source over Path, writable.
	BindRW
	// Pin binds the directory or link Path onto itself, so that it cannot be renamed
	// away from a mask below it or behind it. A link (KindFile) may be gone.
	Pin
	// ViewRO lays a read-only overlay over Path: lowest the placeholders whose View
	// is Path, above them the host's Source. It is a BindRO that masks can rely on:
	// a mask below it holds when the host replaces the file or creates it later.
	ViewRO
)

// Step is one mount.
type Step struct {
	Phase Class
	Op    Op
	Path  string // absolute path in the session, canonical
	Kind  Kind   // KindFile or KindDir
	// Source is a host path for BindRO, BindRW and ViewRO, canonical at planning
	// time. It is to be opened without following links, and SourceID compared.
	Source   string
	SourceID FileID
	// Missing reports that Path did not exist when the plan was made; its mountpoint
	// is a placeholder.
	Missing bool
	// Inside are the mountpoints a Cover has to offer, relative to Path.
	Inside []Placeholder
	Rule   Rule
}

// Placeholder is an empty file or directory that a view's lowest layer has to
// hold, so that a step has a mountpoint and its ancestors cannot be renamed.
// Parents are implied (directories, mode 0755).
type Placeholder struct {
	View string // absolute root of the view; empty inside Step.Inside
	Path string // relative to View
	Kind Kind   // KindFile or KindDir
}

// ViewPattern is a pattern of names that a view hides, with all below them.
type ViewPattern struct {
	View    string       // root of the view
	Pattern glob.Pattern // below it
	Rule    Rule
}

// Link is a symbolic link as it is on the host.
type Link struct{ Path, Target string }

// Plan is what the holder applies, in order.
type Plan struct {
	Steps []Step
	// Placeholders are sorted by View, then Path. They are listed for every masked
	// path in a view, existing or not, so that they depend on the rules alone and a
	// file removed between planning and mounting does not stop a start.
	Placeholders []Placeholder
	// Warnings are lines for people: what a rule could not do, what to do better.
	Warnings []string
	// Unmatched are rules of the user whose path does not exist. They hold for what
	// appears there later.
	Unmatched []Rule
	// Patterns are what each view hides by name, which only the unionfs backend can.
	Patterns []ViewPattern
	// Links are symbolic links of the host, outside of every view, by which an input
	// is reached; they are to be made anew in the session's root.
	Links []Link

	in    Input
	links map[string]string // link → text
	gone  map[string]*cover // masks at or below an agent's own directory
}

// Within reports whether p is root or lies below it, both absolute and clean.
func Within(p, root string) bool { return hostpath.Within(p, root) }
