// Package api is what a bot may import: the wire types of sbxd's HTTP interface
// and a Go client for it. Every type here is JSON on a unix socket below /v1; a
// program in another language needs nothing but these shapes.
//
// It knows no other package of the project, and nothing here grants authority:
// the daemon decides by the socket a request came on.
package api

import "time"

// Version is the path prefix of this interface.
const Version = "v1"

// StartRequest asks for a new session (POST /v1/sessions). Paths are absolute,
// except those of Masks, Carves and FinalMasks, which may be relative to Project.
type StartRequest struct {
	Project    string            `json:"project"`
	Agent      string            `json:"agent,omitempty"`
	Name       string            `json:"name,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Masks      []string          `json:"masks,omitempty"`
	Carves     []string          `json:"carves,omitempty"`
	FinalMasks []string          `json:"final_masks,omitempty"`
	ReadOnly   []string          `json:"read_only,omitempty"`
	Network    string            `json:"network,omitempty"` // off (default) or open
	Backend    string            `json:"backend,omitempty"` // auto (default), kernel or unionfs
	// Home is the caller's HOME as the caller spells it; the daemon checks that it
	// belongs to the session's uid. Empty: from the passwd entry.
	Home string `json:"home,omitempty"`
	// Env are NAME=VALUE pairs for every command of the session. They are kept in a
	// file of mode 0600 and nowhere else.
	Env Words `json:"env,omitempty"`
	// RunAs is a user name or number; only root may name another than itself. The
	// session's uid is the caller's, and never 0.
	RunAs string `json:"run_as,omitempty"`
}

// Session is what the daemon tells of one session.
type Session struct {
	ID       string            `json:"id"`
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Parent   string            `json:"parent,omitempty"`
	State    string            `json:"state"`
	Reason   string            `json:"reason,omitempty"` // why it is broken, or what was lost
	UID      int               `json:"uid"`
	Project  string            `json:"project"`
	Home     string            `json:"home"`
	Agent    string            `json:"agent,omitempty"`
	Backend  string            `json:"backend"`
	Network  string            `json:"network"`
	Created  time.Time         `json:"created"`
	Started  time.Time         `json:"started,omitzero"`
	Stopped  time.Time         `json:"stopped,omitzero"`
	Pids     map[string]int    `json:"pids,omitempty"`      // shim, bwrap, guest; only while running
	Missing  []string          `json:"missing,omitempty"`   // security layers that this host lacks
	Warnings []string          `json:"warnings,omitempty"`  // masks that matched nothing, nested mounts hidden, …
	Commands int               `json:"commands"`            // running now
	Dir      string            `json:"dir"`                 // the session's directory on the host
	Unlanded *int              `json:"unlanded,omitempty"`  // entries of the changeset; only of one session, when it can be told
	EnvNames []string          `json:"env_names,omitempty"` // values are never told
	File     string            `json:"file"`                // its record
}

// ExecRequest starts a command in a running session
// (POST /v1/sessions/{id}/exec, or the first text frame of the WebSocket).
type ExecRequest struct {
	Argv Words `json:"argv"` // any bytes but NUL
	// Cwd is a path inside the session; relative to the project, which is the default.
	Cwd   Word   `json:"cwd,omitempty"`
	Env   Words  `json:"env,omitempty"` // NAME=VALUE, over the session's
	TTY   bool   `json:"tty,omitempty"`
	Rows  uint16 `json:"rows,omitempty"`
	Cols  uint16 `json:"cols,omitempty"`
	Stdin bool   `json:"stdin,omitempty"` // false: the command reads /dev/null
	// Input is the whole standard input, for a plain POST, which has no other way to
	// send it. It is not kept anywhere.
	Input string `json:"input,omitempty"`
	// Detach lets the command run on without a client; its output goes to the log.
	Detach bool `json:"detach,omitempty"`
	// Attach names an earlier command instead of starting one; From is the number of
	// output bytes that the client already has.
	Attach string `json:"attach,omitempty"`
	From   int64  `json:"from,omitempty"`
}

// Channels of the binary frames of the WebSocket: their first byte.
const (
	ChannelStdin  = 0
	ChannelStdout = 1
	ChannelStderr = 2
)

// Event is one message about a command: a line of the newline-delimited answer, or a
// text frame of the WebSocket. Data travels base64-encoded in a line; in the WebSocket
// it follows as a binary frame whose first byte is the channel (0 stdin, 1 stdout,
// 2 stderr).
type Event struct {
	Type string `json:"type"` // started, stdout, stderr, lost, ack, exit, error; from the client: resize, signal, eof
	Exec string `json:"exec,omitempty"`
	Pid  int    `json:"pid,omitempty"` // inside the session
	Data []byte `json:"data,omitempty"`
	// Offset is the number of output bytes before Data, over both channels.
	Offset int64 `json:"offset,omitempty"`
	// Code is the exit code as `docker exec` gives it: the command's own, 125 ours,
	// 126 not executable, 127 not found, 128+n ended by signal n. Only exit and error
	// have one; a command that did well ends with a code of 0, not without one.
	Code    *int   `json:"code,omitempty"`
	Signal  string `json:"signal,omitempty"` // name: INT, TERM, KILL, …
	Rows    uint16 `json:"rows,omitempty"`
	Cols    uint16 `json:"cols,omitempty"`
	Message string `json:"message,omitempty"`
	Lost    int64  `json:"lost,omitempty"` // output bytes that the ring no longer has
	// Received is the number of bytes of standard input that reached the command's side
	// (with started and ack). A client that attaches again sends on from there.
	Received int64 `json:"received,omitempty"`
}

// Error is the body of every answer that is not 2xx, and what the client returns.
// Code is the exit code of the command line (docs/cli.md).
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`        // what, and which rule
	Hint    string `json:"hint,omitempty"` // what to do next
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Exit codes of every command, and Error.Code. A retired number is never used again.
const (
	ExitOK        = 0
	ExitFailed    = 1
	ExitUsage     = 2  // usage or configuration
	ExitNothing   = 3  // nothing to do
	ExitConflict  = 4  // the host changed what would land
	ExitGate      = 5  // a gate needs a yes
	ExitDrift     = 6  // what would land is not what was reviewed
	ExitRefused   = 7  // refused, or unsupported on this host
	ExitBusy      = 8  // somebody else holds it
	ExitAttention = 9  // it needs a person's attention
	ExitNotFound  = 10 // no such session, landing or path
	ExitDenied    = 11 // not permitted
	ExitNoDaemon  = 12 // no daemon answers
	ExitExec      = 125
	ExitNotExec   = 126
	ExitNoCommand = 127
)
