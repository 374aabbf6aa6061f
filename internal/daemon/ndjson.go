package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// postExec is the form of exec for curl: a JSON body, and an answer of JSON lines, one
// an event.
func (d *Daemon) postExec(w http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	var req api.ExecRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.Stdin {
		return nil, usage("a plain POST has no stream to read: give the whole of stdin as input")
	}
	cl := &lineClient{w: w, out: http.NewResponseController(w)}
	s, err := d.open(r.Context(), c, rec, req, cl)
	if err != nil {
		return nil, err
	}
	defer s.close()
	cl.stream = s
	defer d.closeWith(r.Context(), s)()
	if req.Input != "" {
		go s.feed(req.Input)
	}
	if err := s.pump(req.Detach); err != nil {
		if !cl.begun {
			return nil, err
		}
		e := session.APIError(err)
		_ = cl.event(api.Event{Type: "error", Code: &e.Code, Message: e.Error()})
	}
	return streamed, nil
}

// closeWith closes s when ctx or the daemon ends.
func (d *Daemon) closeWith(ctx context.Context, s *stream) (stop func()) {
	a := context.AfterFunc(ctx, s.close)
	b := context.AfterFunc(d.run, s.close)
	return func() { a(); b() }
}

// feed sends the whole of stdin.
func (s *stream) feed(input string) {
	if s.stdin([]byte(input)) == nil {
		_ = s.control(api.Event{Type: "eof"})
	}
}

// lineClient is the reader of an answer of JSON lines.
type lineClient struct {
	w      http.ResponseWriter
	out    *http.ResponseController
	stream *stream
	begun  bool
}

func (cl *lineClient) event(e api.Event) error {
	if e.Type == "ack" {
		return nil // it sends nothing that needs it
	}
	if !cl.begun {
		cl.begun = true
		cl.w.Header().Set("Content-Type", "application/x-ndjson")
		cl.w.WriteHeader(http.StatusOK)
	}
	if err := json.NewEncoder(cl.w).Encode(e); err != nil {
		return err
	}
	return cl.out.Flush()
}

func (cl *lineClient) data(channel byte, offset int64, b []byte) error {
	e := api.Event{Type: "stdout", Data: b, Offset: offset}
	if channel == api.ChannelStderr {
		e.Type = "stderr"
	}
	return cl.event(e)
}

// getLog streams the output of a command, both channels as they came. What a running
// command has written so far is the end, unless follow is true.
func (d *Daemon) getLog(w http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	follow, err := flag(r, "follow")
	if err != nil {
		return nil, err
	}
	var from int64
	if s := r.URL.Query().Get("from"); s != "" {
		if from, err = strconv.ParseInt(s, 10, 64); err != nil || from < 0 {
			return nil, usage("the query's from is %.20q: it has to be a number of bytes", s)
		}
	}
	cmd := r.PathValue("cmd")
	end, err := d.outputOf(r.Context(), rec, cmd)
	if err != nil {
		return nil, err
	}
	cl := &logClient{w: w, out: http.NewResponseController(w), at: from, end: end}
	if rec.State != session.Alive {
		var out []byte
		if err := d.work(r.Context(), session.WorkLog, rec, session.Work{Exec: cmd, From: from}, &out); err != nil {
			return nil, err
		}
		_ = cl.data(0, from, out) // the reader went away, or has all
		return streamed, nil
	}
	if follow {
		cl.end = -1
	}
	if cl.past() {
		w.WriteHeader(http.StatusOK)
		return streamed, nil
	}
	s, err := d.open(r.Context(), c, rec, api.ExecRequest{Attach: cmd, From: from}, cl)
	if err != nil {
		return nil, err
	}
	defer s.close()
	defer d.closeWith(r.Context(), s)()
	if err := s.pump(false); err != nil && !errors.Is(err, errPast) && !cl.begun {
		return nil, err
	}
	return streamed, nil
}

// outputOf returns how much a command has written so far.
func (d *Daemon) outputOf(ctx context.Context, rec session.Record, cmd string) (int64, error) {
	list, err := d.commands(ctx, rec)
	if err != nil {
		return 0, err
	}
	for _, i := range list {
		if i.Exec == cmd {
			return i.Output, nil
		}
	}
	return 0, &api.Error{
		Code: api.ExitNotFound, Message: fmt.Sprintf("session %s has no command %.20q", rec.ID, cmd),
		Hint: "sbxd status " + string(rec.ID) + " lists them",
	}
}
