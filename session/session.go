// Package session is what one session is: its id and names, the record that
// survives everything, the states it may be in, and the directory that holds it.
// The one idea is that a session is a directory with a record, and that only the
// record is believed: a process is named by pid, start time and boot, never by a
// bare number, and a directory without a record is an orphan by definition.
//
// It knows the layout of the state root and how processes are asked for (Launcher),
// and the messages that shim, guest and worker are sent. It must not know HTTP, the
// command line, or how a view is mounted.
package session

import (
	"time"

	"github.com/sbxd/sbxd/internal/proc"
)

// Format is the version of the record that this program writes.
const Format = 1

// Place is a directory of the user's: as it was spelled, what it really is, and the
// identity of the inode behind it, so that a directory put in its place later is
// recognised.
type Place struct {
	Spelled string `json:"spelled"`
	Real    string `json:"real"` // canonical: absolute, clean, through no link
	Dev     uint64 `json:"dev"`
	Ino     uint64 `json:"ino"`
	BTime   int64  `json:"btime,omitempty"` // nanoseconds since 1970; 0 where the file system has none
}

// Same reports whether two places are the same inode. A birth time that either
// side lacks is not compared.
func (p Place) Same(q Place) bool {
	return p.Dev == q.Dev && p.Ino == q.Ino && (p.BTime == q.BTime || p.BTime == 0 || q.BTime == 0)
}

// Given are the path rules of a session exactly as its caller wrote them; a resume
// reads them again against the policy of that day.
type Given struct {
	Masks      []string `json:"masks,omitempty"`
	Carves     []string `json:"carves,omitempty"`
	FinalMasks []string `json:"final_masks,omitempty"`
	ReadOnly   []string `json:"read_only,omitempty"`
}

// Record is everything that is kept of a session (session.json). It holds no value
// of an environment variable, only names.
type Record struct {
	Format int               `json:"format"`
	ID     ID                `json:"id"`
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Parent ID                `json:"parent,omitempty"`

	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // why it is broken or was stopped

	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`

	Project Place  `json:"project"`
	Home    Place  `json:"home"`
	Agent   string `json:"agent,omitempty"`
	Given   Given  `json:"given"`
	// Tight are the rules of the project's own file at the last start; Notes what that
	// start had to say beside.
	Tight []Source `json:"tight,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// Network is off or open. Backend is what was asked for (auto, kernel, unionfs);
	// View is the one that was chosen at the last start.
	Network  string   `json:"network"`
	Backend  string   `json:"backend"`
	View     string   `json:"view,omitempty"`
	EnvNames []string `json:"env_names,omitempty"`

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	Stopped time.Time `json:"stopped,omitzero"`

	// The processes of the last start; meaningful while State is running or frozen.
	Running Running `json:"running,omitzero"`
	Boot    string  `json:"boot,omitempty"` // boot id of the last start
}

// Running names the processes of a live session and what was found at its start.
type Running struct {
	Shim  proc.ID `json:"shim,omitzero"`
	Bwrap proc.ID `json:"bwrap,omitzero"`
	Guest proc.ID `json:"guest,omitzero"`
	// MountNS is the inode of the mount namespace that holds the session's mounts.
	MountNS  uint64   `json:"mount_ns,omitempty"`
	View     string   `json:"view,omitempty"`     // backend that was mounted
	Policy   string   `json:"policy,omitempty"`   // sum of the policy that it was started under
	Missing  []string `json:"missing,omitempty"`  // security layers that this host lacks
	Warnings []string `json:"warnings,omitempty"` // masks that matched nothing, nested mounts hidden, …
}
