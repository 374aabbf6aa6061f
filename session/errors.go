package session

import "errors"

// What callers branch on. Every other error is only told.
var (
	// ErrNotFound is a session, name or landing that is not there, or that the asker
	// may not see.
	ErrNotFound = errors.New("not found")
	// ErrExists is a name that another session of the same caller has.
	ErrExists = errors.New("exists already")
	// ErrBusy is a state root or a session that somebody else holds.
	ErrBusy = errors.New("busy")
	// ErrDenied is a directory or socket whose owner or mode is not ours.
	ErrDenied = errors.New("not permitted")
	// ErrRefused is input that a rule forbids.
	ErrRefused = errors.New("refused")
	// ErrGone is a session whose shim does not answer any more.
	ErrGone = errors.New("its shim is gone")
)

// StartError is a start that failed inside the processes of a session: the step that
// failed and what it said. Nothing of the start is left.
type StartError struct {
	Step    string
	Message string
}

func (e *StartError) Error() string { return "starting the session: " + e.Step + ": " + e.Message }
