package session

import "fmt"

// State is where a session is in its life.
type State string

// The states of a session.
const (
	Creating State = "creating" // being started or resumed
	Alive    State = "running"
	Frozen   State = "frozen" // its processes do not run; diff and land need that
	Stopping State = "stopping"
	Stopped  State = "stopped" // no process; upper and base are kept
	Broken   State = "broken"  // its record or its processes cannot be trusted; kept, reported
	Archived State = "archived"
)

// States lists every state, in the order of a life.
var States = []State{Creating, Alive, Frozen, Stopping, Stopped, Broken, Archived}

// moves is the one table of allowed moves. Staying is not a move.
var moves = map[State][]State{
	Creating: {Alive, Stopped, Broken},            // stopped: the start was undone
	Alive:    {Frozen, Stopping, Stopped, Broken}, // stopped: it ended by itself, or another boot
	Frozen:   {Alive, Stopping, Stopped, Broken},
	Stopping: {Stopped, Broken},
	Stopped:  {Creating, Archived, Broken}, // creating: resume
	Broken:   {Stopping, Stopped, Archived},
	Archived: {},
}

// StateError is a move that the table does not allow.
type StateError struct {
	ID       ID
	From, To State
}

func (e *StateError) Error() string {
	return fmt.Sprintf("session %s is %s and cannot become %s", e.ID, e.From, e.To)
}

// Known reports whether s is one of the states.
func (s State) Known() bool {
	_, ok := moves[s]
	return ok
}

// Live reports whether a session in this state has processes.
func (s State) Live() bool { return s == Alive || s == Frozen || s == Stopping || s == Creating }

// Move takes r to the state to, or returns a StateError and leaves r alone.
func (r *Record) Move(to State) error {
	for _, s := range moves[r.State] {
		if s == to {
			r.State = to
			return nil
		}
	}
	return &StateError{ID: r.ID, From: r.State, To: to}
}
