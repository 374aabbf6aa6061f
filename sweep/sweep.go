// Package sweep finds what dead sessions left and says how it is removed.
//
// The one idea: look, plan, apply. Look reads the mount tables of every mount
// namespace, the processes that records name, the state root, and what probes made in
// /tmp. Make is pure and turns what was seen into a list of entries, each with its reason
// and its proof. Apply carries the list out, entry by entry, and checks again what may
// have changed. A dry run prints the very list.
//
// It destroys only on proof: a process is named by number, start and boot, a mount
// by a line of a table, a directory by the record that it lacks, one of a probe by a lock
// that nobody has. What is unknown is kept, work that never landed is archived, and one
// bad session stops nothing else. It must not know how sessions are made, and never looks
// at arguments.
package sweep

import (
	"time"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// Young is how long something that lacks a record, or was never started, is left
// alone: it may just be in the making.
const Young = 60 * time.Second

// Known is what the state root is supposed to hold.
type Known struct {
	Root    string // the state root: absolute, clean, without links
	System  bool   // the layout of the system's daemon
	Runtime string // the directory that holds s/<id>.sock
	Scratch string // where probes make their directories; empty: not looked at
	Records []session.Record
	// Busy are sessions that this process is working on right now.
	Busy map[session.ID]bool
}

// Seen is what Look found. It is plain data, so that a plan can be made of any
// machine.
type Seen struct {
	Now        time.Time
	Boot       string
	Own        uint64 // inode of our own mount namespace
	Namespaces []Namespace
	Processes  map[proc.ID]proc.Liveness // of every process that a record names
	Dirs       []Dir
	Sockets    []Socket
	// Bases are the directories that were listed for Dirs, and where they lie on
	// their file system, which is how bind mounts of them are recognised.
	Bases []Base
	// Probes are directories of probes outside of the state root.
	Probes []Dir
	Faults []Fault
}

// Fault is something that could not be looked at.
type Fault struct{ What, Why string }

// Namespace is a mount namespace, its processes and its mounts.
type Namespace struct {
	Inode     uint64
	Processes []proc.ID
	Mounts    []Mount // in the order of the table
	// Partial: lines of its table could not be read.
	Partial bool
}

// Mount is a line of a mount table, unescaped.
type Mount struct {
	Point  string
	Root   string // path within its file system
	Major  int
	Minor  int
	FSType string
	Layers []string // of an overlay: the directories it is made of
	// Label is that of a session's view: where the kernel does not name layers that were
	// given as descriptors (before 6.13), it is all that tells whose view it is.
	Label session.Label
}

// Base is a listed directory.
type Base struct {
	Path         string // such as /var/lib/sbxd/1000/sessions
	FSPath       string // the same within its file system; empty when unknown
	ID           session.DirID
	Major, Minor int
}

// Dir is an entry of a directory of sessions, landings or placeholders, or a probe's in
// the state root itself. Only directories are listed, with names that our own programs
// give.
type Dir struct {
	Base    string // Base.Path
	Name    string // <id>, new-<id> or old-<id>; of landings not <id>; .probe-<number>; of placeholders a digest
	UID     int    // owner
	Changed time.Time
	Record  bool // it holds a session.json
	// Work reports that its project's upper directory holds something. It is looked
	// at, and true when it cannot be, only for entries without a record.
	Work bool
	Held bool // of a probe outside of the state root: somebody has its lock
}

// Path returns the entry's path.
func (d Dir) Path() string { return d.Base + "/" + d.Name }

// Socket is a socket of a session in the runtime directory.
type Socket struct {
	ID      session.ID
	Path    string
	Changed time.Time
	// Answers reports whether somebody listens on it. It is asked only where no process
	// of the session is known to live.
	Answers proc.Liveness
}

// Action is what is done about an entry.
type Action string

// The actions, in the order in which they are applied to one session.
const (
	Kill    Action = "kill"
	Unmount Action = "unmount"
	Stop    Action = "stop" // the record becomes stopped; its work is kept
	Remove  Action = "remove"
	Archive Action = "archive" // moved to the archive, with the work in it
	Keep    Action = "keep"
)

// Kinds of things that an entry is about.
const (
	KindProcess   = "process"
	KindMount     = "mount"
	KindRecord    = "record"
	KindSocket    = "socket"
	KindDirectory = "directory"
)

// Entry is one thing and what is to be done about it.
type Entry struct {
	Action  Action
	Kind    string
	What    string // for people: a path, a process, an id
	Session session.ID
	Reason  string // why
	Proof   string // what shows it

	Process proc.ID       // of kill
	Path    string        // of unmount, remove and archive
	To      string        // of archive
	UID     int           // owner of what is removed or archived
	State   session.State // of stop: the state that the record is in now
}

// Plan is the list, sorted by session and then by action. Apply carries it out.
type Plan struct {
	Entries []Entry
	Faults  []Fault
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool {
	for _, e := range p.Entries {
		if e.Action != Keep {
			return false
		}
	}
	return true
}
