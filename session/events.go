package session

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Event is one line of a session's audit trail (events.jsonl). It never holds the
// value of an environment variable or an argument of a command.
type Event struct {
	Time   time.Time `json:"time"`
	UID    int       `json:"uid"`              // who asked; the daemon's own for what it does by itself
	Pid    int       `json:"pid,omitempty"`    // of who asked
	Socket string    `json:"socket,omitempty"` // on which the request came
	What   string    `json:"what"`             // start, exec, stop, land, …
	Detail string    `json:"detail,omitempty"`
	Result string    `json:"result"` // ok, or the error
}

// Append adds a line to the trail of id, in one write.
func (s *Store) Append(id ID, e Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	name := filepath.Join(s.dir(id), eventsFile)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("recording an event of session %s: %w", id, err)
	}
	defer f.Close()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("recording an event of session %s: %w", id, err)
	}
	return nil
}
