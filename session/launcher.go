package session

import (
	"context"
	"net"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/masks"
)

// Launch is what a start needs and no record keeps.
type Launch struct {
	// Dir is the session's data directory (mode 0700, owned by the session's uid),
	// with home/{upper,work,pins}, project/{upper,work,pins,base} and log made.
	Dir string
	// Socket is where the daemon reaches the shim: <runtime>/s/<id>.sock. The launcher
	// makes it, mode 0600, and removes it with the shim.
	Socket string
	// Env are NAME=VALUE pairs for every command. They never reach an argument list.
	Env []string
	// Policy is what configuration and agent profile add to the record's own rules,
	// read anew at every start.
	Policy Policy
	// Backend mounts the views: Kernel or Unionfs.
	Backend string
	// Resume: the views' upper directories hold earlier work.
	Resume bool
	// Made waits until the session's record and Dir are there, or tells why not; nil:
	// they are there. What of a start needs neither goes ahead of it.
	Made func() error `json:"-"`
}

// The backends of views, as records and configuration name them.
const (
	Kernel  = "kernel"
	Unionfs = "unionfs"
)

// Policy is the host's part of what a session sees and may use. Paths are absolute.
type Policy struct {
	HomeMode masks.HomeMode `json:"home_mode,omitempty"`
	// StateDirs are sbxd's own places, never exposed: state root, runtime directory,
	// configuration.
	StateDirs []string `json:"state_dirs,omitempty"`
	// Base are the host directories that every session sees read-only.
	Base []string `json:"base,omitempty"`
	// Given are rules as somebody wrote them; Rules are ready ones (an agent's profile).
	Given []Source     `json:"given,omitempty"`
	Rules []masks.Rule `json:"rules,omitempty"`
	// Agent is the profile of the record's agent with the configuration's changes; nil:
	// the built-in one of its name.
	Agent *masks.Agent `json:"agent,omitempty"`
	// Bwrap is the absolute path of bubblewrap; empty: the usual places.
	Bwrap string `json:"bwrap,omitempty"`
	// LogSize bounds the log of the session's commands, in bytes; 0: our own default.
	LogSize int64 `json:"log_size,omitempty"`
	// ChangesSize and ChangedFiles bound the upper of each view, in bytes and inodes; 0:
	// no bound. One needs the unionfs backend.
	ChangesSize  int64 `json:"changes_size,omitempty"`
	ChangedFiles int64 `json:"changed_files,omitempty"`
	// TmpSize and ShmSize bound the session's scratch file systems, in bytes; 0: our own
	// default.
	TmpSize int64 `json:"tmp_size,omitempty"`
	ShmSize int64 `json:"shm_size,omitempty"`
}

// Source is a set of path rules and who gave them.
type Source struct {
	From  string `json:"from"` // "/etc/sbxd/config.toml:12", "agent claude-code"
	Rules Given  `json:"rules"`
}

// Launcher is the process side of a session. Its implementation starts a shim that
// outlives the daemon; everything it starts has the session's uid.
type Launcher interface {
	// Start starts (or resumes) the processes of r and returns when the guest answers.
	// On an error nothing of it is left: no process, mount, socket or directory that
	// was not there before.
	Start(ctx context.Context, r Record, l Launch) (Running, error)
	// Stop ends every process of r and returns when they are gone: first by asking the
	// shim, then by its process identity. A process that is not provably the session's
	// is never signalled. A session without processes is no error.
	Stop(ctx context.Context, r Record, l Launch) error
	// Dial connects to the shim of r; ErrGone when it is not there. The answer is a
	// fresh stream on which protocol.go is spoken, hello first.
	Dial(ctx context.Context, r Record, socket string) (net.Conn, error)
}

// Lost tells why a record's processes are not there any more, or "" when the shim is
// alive or may be. boot is the host's boot id of now.
func (r Record) Lost(boot string) string {
	switch {
	case r.Boot != "" && boot != "" && r.Boot != boot:
		return "the host was started again"
	case r.Running.Shim == proc.ID{}:
		return "it never finished starting"
	case r.Running.Shim.Alive() == proc.Dead:
		return "its shim ended"
	}
	return ""
}
