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
	// Bwrap is the absolute path of bubblewrap; empty: the usual places.
	Bwrap string
	// Rules are the path rules of the record, the agent's profile and the configuration,
	// put together anew at every start; without the built-in ones, which masks.Make adds.
	Rules    []masks.Rule
	HomeMode masks.HomeMode
	// StateDirs are sbxd's own places, never exposed: state root, runtime directory,
	// configuration.
	StateDirs []string
	// Resume: the views' upper directories hold earlier work.
	Resume bool
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
