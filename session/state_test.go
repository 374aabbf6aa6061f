package session

import (
	"errors"
	"slices"
	"testing"
)

// allowed is written out by hand, apart from the table it checks.
var allowed = map[State][]State{
	Creating: {Alive, Stopped, Broken},
	Alive:    {Frozen, Stopping, Stopped, Broken},
	Frozen:   {Alive, Stopping, Stopped, Broken},
	Stopping: {Stopped, Broken},
	Stopped:  {Creating, Archived, Broken},
	Broken:   {Stopping, Stopped, Archived},
	Archived: nil,
}

func TestEveryPairOfStates(t *testing.T) {
	if len(States) != len(moves) || len(States) != len(allowed) {
		t.Fatalf("%d states, %d in the table, %d here", len(States), len(moves), len(allowed))
	}
	for _, from := range States {
		for _, to := range States {
			r := Record{ID: NewID(), State: from}
			err := r.Move(to)
			if slices.Contains(allowed[from], to) {
				if err != nil || r.State != to {
					t.Errorf("%s to %s: %v, state %s", from, to, err, r.State)
				}
				continue
			}
			var bad *StateError
			if !errors.As(err, &bad) || bad.From != from || bad.To != to || bad.ID != r.ID || r.State != from {
				t.Errorf("%s to %s: %v, state %s; want a StateError and no move", from, to, err, r.State)
			}
		}
	}
}

func TestUnknownStateMovesNowhere(t *testing.T) {
	for _, s := range []State{"", "zombie"} {
		r := Record{State: s}
		if s.Known() || r.Move(Stopped) == nil {
			t.Errorf("state %q is known or moves", s)
		}
	}
}
