package api

import "time"

// RemoveRequest is the query of DELETE /v1/sessions/{id}.
type RemoveRequest struct {
	Discard bool `json:"discard,omitempty"` // unlanded work may be lost
}

// Command is one command of a session (GET /v1/sessions/{id}/execs).
type Command struct {
	Exec    string    `json:"exec"`
	Argv    []string  `json:"argv"`          // shortened
	Pid     int       `json:"pid,omitempty"` // inside the session
	TTY     bool      `json:"tty,omitempty"`
	Running bool      `json:"running"`
	Code    int       `json:"code"`
	Signal  string    `json:"signal,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Message string    `json:"message,omitempty"` // why it never ran, or ended without a code of its own
	Output  int64     `json:"output"`            // bytes so far, over both channels
	Lost    int64     `json:"lost,omitempty"`    // of them, those that the log no longer has
}

// Explanation tells what a session makes of a path (GET …/explain?path=).
type Explanation struct {
	Path string `json:"path"`
	// Access is hidden, read-only, writable (in the view: copy-on-write), live (the real
	// one, writable) or absent.
	Access string `json:"access"`
	Rule   string `json:"rule"` // the rule that won, and where it comes from
	Why    string `json:"why,omitempty"`
	// Chain are all rules that touch the path, in the order in which they are laid.
	Chain []string `json:"chain,omitempty"`
	Notes []string `json:"notes,omitempty"` // for example: git objects still hold it
}

// SweepRequest asks for a sweep (POST /v1/sweep).
type SweepRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
}

// SweepItem is one thing that a sweep found.
type SweepItem struct {
	Kind   string `json:"kind"` // mount, process, directory, socket, record, fault
	What   string `json:"what"`
	Action string `json:"action"` // remove, archive, keep
	Reason string `json:"reason"`
	Proof  string `json:"proof,omitempty"`
	Error  string `json:"error,omitempty"` // why the action did not work
}

// Sweep is what a sweep did, or would do.
type Sweep struct {
	DryRun bool        `json:"dry_run,omitempty"`
	Items  []SweepItem `json:"items"`
}

// VersionInfo describes a daemon (GET /v1/version).
type VersionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	API     string `json:"api"`
	Pid     int    `json:"pid"`
	UID     int    `json:"uid"`
	State   string `json:"state_root"`
	Socket  string `json:"socket"`
}

// StateEvent is one line of GET /v1/events: a session that the asker may see came
// into a state.
type StateEvent struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session"`
	Name    string    `json:"name,omitempty"`
	State   string    `json:"state"` // removed: it is no more
	Reason  string    `json:"reason,omitempty"`
}
