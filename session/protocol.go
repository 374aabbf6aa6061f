package session

import (
	"errors"
	"time"

	"github.com/sbxd/sbxd/internal/wire"
)

// The messages of a running session: headers of internal/wire frames. Both hops begin
// with a hello. Bytes of a command (stdin, stdout, stderr) are the payload of a frame.
//
// shim and guest share one connection. The guest has the agent's uid, so the shim
// believes nothing it says beyond what this file allows.
//
// The daemon opens a connection to the shim for each command that it starts or attaches
// to; list, status, stop, signal and resize are answered on any connection.

// Protocol is what this program speaks on both hops.
var Protocol = wire.Hello{Proto: 1, Min: 1}

// Bounds of what travels. All are in bytes unless they say otherwise.
const (
	// Window is how much output of a command, over both channels, the guest may send
	// ahead of the shim's credit, and how much stdin anybody may send ahead of its own.
	Window = 256 << 10
	// MaxData is the largest payload of one stdin or out frame.
	MaxData = 64 << 10
	// MaxMessage is the longest explanation that the guest may give.
	MaxMessage = 4 << 10
	// MaxCommands is how many commands of a session run at once.
	MaxCommands = 1000
)

// Types of messages, Msg.Type. The names in brackets are the fields that count.
const (
	// From the client of a command to its shim, and on to the guest. The shim takes
	// them by Exec, or for the connection's own command; the guest takes them by ID.
	MsgStdin  = "stdin"  // payload; within the credit given
	MsgEOF    = "eof"    // no more stdin
	MsgSignal = "signal" // [Signal] to the command's process group
	MsgResize = "resize" // [Rows, Cols]

	// From daemon to shim.
	MsgExec   = "exec"   // [Run] start a command; the connection becomes its client
	MsgAttach = "attach" // [Exec, From, Stdin] become a client of an earlier command
	MsgList   = "list"   // answered by list
	MsgStatus = "status" // answered by status
	MsgStop   = "stop"   // [Grace] end everything; answered by ok when it is done

	// From shim to guest: exec and stop as above, and
	MsgCredit = "credit" // [N] more bytes of output, or of stdin, may come

	// From guest to shim, and on to the client.
	MsgStarted = "started" // [Pid]
	MsgRefused = "refused" // [Code, Message] it never ran: 125, 126 or 127
	MsgOut     = "out"     // [FD], [Offset]; payload
	MsgExit    = "exit"    // [Code, Signal]
	MsgReady   = "ready"   // guest only, after hello: [Missing]

	// From shim to daemon only.
	MsgLost  = "lost"  // [N, Offset] output that the log no longer has
	MsgOK    = "ok"    // what was asked is done
	MsgError = "error" // [Message] what was asked cannot be done; the connection goes on
)

// Msg is the header of every message after the hello, in every direction.
type Msg struct {
	Type string `json:"t"`
	// ID names a command between shim and guest. The shim chooses it and never uses
	// it twice in a session.
	ID uint32 `json:"id,omitempty"`
	// Exec names a command between daemon and shim: decimal digits.
	Exec string `json:"exec,omitempty"`

	Run     *Command `json:"run,omitempty"`
	Pid     int      `json:"pid,omitempty"` // inside the session
	FD      int      `json:"fd,omitempty"`  // 1 stdout (of a tty: all), 2 stderr
	Code    int      `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	// Signal is a signal's number. Of exit, it is the signal that ended the command, and
	// Code is then 128 more.
	Signal int    `json:"signal,omitempty"`
	Rows   uint16 `json:"rows,omitempty"`
	Cols   uint16 `json:"cols,omitempty"`
	// N is a number of bytes.
	N int64 `json:"n,omitempty"`
	// Offset is the number of output bytes, over both channels, before these.
	Offset int64 `json:"offset,omitempty"`
	// From is the number of output bytes that the client already has.
	From int64 `json:"from,omitempty"`
	// Stdin of attach: take stdin over from the client that had it.
	Stdin bool `json:"stdin,omitempty"`
	// Received of started is how many bytes of stdin the shim has taken so far: a client
	// that attaches with Stdin sends on from there. N is then its credit.
	Received int64         `json:"received,omitempty"`
	Grace    time.Duration `json:"grace,omitempty"` // between SIGTERM and SIGKILL; nanoseconds

	Commands []CommandInfo `json:"commands,omitempty"` // of list, oldest first
	Status   *ShimStatus   `json:"status,omitempty"`
	Missing  []string      `json:"missing,omitempty"`
}

// Command is a command to be run. Words may hold any byte but NUL.
type Command struct {
	Argv Words `json:"argv"`
	// Env are NAME=VALUE pairs over the session's own; the last of a name wins.
	Env Words `json:"env,omitempty"`
	// Cwd is a path inside; relative to, and by default, the project.
	Cwd   Word   `json:"cwd,omitempty"`
	TTY   bool   `json:"tty,omitempty"`
	Rows  uint16 `json:"rows,omitempty"`
	Cols  uint16 `json:"cols,omitempty"`
	Stdin bool   `json:"stdin,omitempty"` // false: it reads /dev/null, or nothing from its tty
}

// CommandInfo is what is known of a command, running or not.
type CommandInfo struct {
	Exec    string    `json:"exec"`
	Argv    []string  `json:"argv"` // shortened
	TTY     bool      `json:"tty,omitempty"`
	Pid     int       `json:"pid,omitempty"` // inside the session; while it runs
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Running bool      `json:"running,omitempty"`
	Code    int       `json:"code"` // once it has ended
	Signal  int       `json:"signal,omitempty"`
	Message string    `json:"message,omitempty"` // why it never ran, or why it ended without an exit code of its own
	Output  int64     `json:"output"`            // bytes so far
	Lost    int64     `json:"lost,omitempty"`    // of them, those that the log no longer has, from the start
}

// ShimStatus is what the shim tells of its session.
type ShimStatus struct {
	Running
	Commands int `json:"commands"` // running now
	// LogError is why the log does not take more, such as a full disk; output is then
	// passed to those who are attached and kept for nobody.
	LogError string `json:"log_error,omitempty"`
}

// Layers that the guest may say it lacks (Msg.Missing of ready).
const (
	MissingLandlock = "landlock"
	MissingScopes   = "landlock-scopes" // for abstract sockets and signals: ABI 6
)

// Exit codes that are not the command's own, as `docker exec` gives them.
const (
	CodeOurs     = 125 // we could not start it
	CodeNotExec  = 126
	CodeNotFound = 127
	CodeSignal   = 128 // plus the signal's number
)

// ErrNoCommand is returned for a command that the session does not know (any more).
var ErrNoCommand = errors.New("no such command in this session")
