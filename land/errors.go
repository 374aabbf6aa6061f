package land

import (
	"errors"
	"fmt"
	"strings"
)

// What callers branch on. Each is wrapped by a typed error, or by text that says
// what to do; the exit code of each stands beside it.
var (
	ErrNothing   = errors.New("nothing to land")   // 3
	ErrConflict  = errors.New("conflict")          // 4
	ErrDrift     = errors.New("changed since")     // 6
	ErrRefused   = errors.New("refused")           // 7
	ErrBusy      = errors.New("busy")              // 8
	ErrAttention = errors.New("needs attention")   // 9
	ErrNotFound  = errors.New("no such landing")   // 10
	ErrNoBase    = errors.New("no base was taken") // 7
)

// ConflictError says why nothing was landed or undone: the paths that both sides
// changed.
type ConflictError struct {
	Conflicts []Conflict
	Undo      bool
}

// fewPaths is how many paths an error's one line names before it counts.
const fewPaths = 3

func (e *ConflictError) Error() string {
	var names []string
	for _, c := range e.Conflicts {
		if len(names) == fewPaths {
			names = append(names, fmt.Sprintf("and %d more", len(e.Conflicts)-fewPaths))
			break
		}
		names = append(names, fmt.Sprintf("%s (%s)", Quote(c.Path), c.Kind))
	}
	what := "nothing was landed: the project changed under the session: "
	if e.Undo {
		what = "nothing was undone: the project changed since the landing: "
	}
	return what + strings.Join(names, ", ")
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Paths returns the paths in conflict, sorted.
func (e *ConflictError) Paths() []string {
	out := make([]string, 0, len(e.Conflicts))
	for _, c := range e.Conflicts {
		out = append(out, c.Path)
	}
	return out
}

// DriftError says that the session is no longer what was reviewed.
type DriftError struct {
	Want, Have string
	Delta      []string // paths that differ between the two; empty if Want was never shown here
}

func (e *DriftError) Error() string {
	what := "that changeset was never shown here"
	if n := len(e.Delta); n > 0 {
		names := make([]string, 0, fewPaths+1)
		for i, p := range e.Delta {
			if i == fewPaths {
				names = append(names, fmt.Sprintf("and %d more", n-fewPaths))
				break
			}
			names = append(names, Quote(p))
		}
		what = "different since: " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("nothing was landed: expected changeset %.12s, the session has %.12s (%s); look at the diff again", e.Want, e.Have, what)
}

// Is makes errors.Is(err, ErrDrift) true.
func (e *DriftError) Is(target error) bool { return target == ErrDrift }

// RefusedError says what cannot be done, which rule forbids it, and what to do.
type RefusedError struct {
	What, Why, Next string
	Err             error // ErrRefused if nil
}

func (e *RefusedError) Error() string {
	msg := e.What + ": " + e.Why
	if e.Next != "" {
		msg += "; " + e.Next
	}
	return msg
}

func (e *RefusedError) Unwrap() error {
	if e.Err == nil {
		return ErrRefused
	}
	return errors.Join(ErrRefused, e.Err)
}

// AttentionError says that a landing was taken back, but that some paths were
// changed by the host meanwhile: they kept the host's bytes, and what was there
// before lies in Kept.
type AttentionError struct {
	ID    string
	Left  []string
	Kept  string
	Cause error
}

func (e *AttentionError) Error() string {
	msg := fmt.Sprintf("landing %s was taken back, but the host changed %d paths meanwhile (first %s); what was there before is in %s",
		e.ID, len(e.Left), Quote(e.Left[0]), e.Kept)
	if e.Cause != nil {
		msg += ": " + e.Cause.Error()
	}
	return msg
}

// Is makes errors.Is(err, ErrAttention) true.
func (e *AttentionError) Is(target error) bool { return target == ErrAttention }

func (e *AttentionError) Unwrap() error { return e.Cause }
