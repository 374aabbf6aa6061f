package daemon

import (
	"errors"
	"net/http"

	"github.com/sbxd/sbxd/api"
)

// errPast ends the pump of a log that has reached its end.
var errPast = errors.New("the log is at its end")

// logClient writes the bare bytes of both channels.
type logClient struct {
	w       http.ResponseWriter
	out     *http.ResponseController
	at, end int64 // bytes of output; an end below 0 is that of the command
	begun   bool
}

func (cl *logClient) past() bool { return cl.end >= 0 && cl.at >= cl.end }

func (cl *logClient) event(e api.Event) error {
	switch e.Type {
	case "started":
		cl.begin()
	case "lost":
		cl.at += e.Lost
	}
	if cl.past() {
		return errPast
	}
	return nil
}

func (cl *logClient) begin() {
	if !cl.begun {
		cl.begun = true
		cl.w.Header().Set("Content-Type", "application/octet-stream")
		cl.w.WriteHeader(http.StatusOK)
	}
}

func (cl *logClient) data(_ byte, _ int64, b []byte) error {
	cl.begin()
	cl.at += int64(len(b))
	if _, err := cl.w.Write(b); err != nil {
		return err
	}
	if cl.past() {
		return errPast
	}
	return cl.out.Flush()
}
