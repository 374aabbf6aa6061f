package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// client is one end of a command: a WebSocket, or the answer of a POST. Its methods are
// called from one goroutine.
type client interface {
	event(api.Event) error
	data(channel byte, offset int64, b []byte) error
}

// stream is one client's connection to one command, through the shim.
type stream struct {
	shim   *wire.Conn
	client client

	mu sync.Mutex // guards the fields below
	// credit is how much more stdin the shim takes; received is how much the command's
	// side has.
	credit, received int64
	ended            bool
	changed          *sync.Cond
}

// running refuses a command in a session that has nobody to run it.
func running(rec session.Record) error {
	if rec.State == session.Alive {
		return nil
	}
	hint := ""
	if rec.State == session.Stopped {
		hint = "sbxd resume " + string(rec.ID)
	}
	why := ""
	if rec.Reason != "" {
		why = ": " + rec.Reason
	}
	return refused(hint, "session %s is %s%s", rec.ID, rec.State, why)
}

// checkExec refuses what cannot be a command.
func checkExec(req api.ExecRequest) error {
	if req.Attach != "" {
		if len(req.Argv) > 0 || len(req.Env) > 0 || req.Detach {
			return usage("attach names a command that runs; it takes no argv, env or detach")
		}
		if len(req.Attach) > 20 || req.From < 0 {
			return usage("attach %.40q from %d: no such command or place", req.Attach, req.From)
		}
		return nil
	}
	if len(req.Argv) == 0 || req.Argv[0] == "" {
		return usage("argv is empty: there is nothing to run")
	}
	if err := session.CheckEnv(req.Env); err != nil {
		return usage("%v", err)
	}
	return nil
}

// open starts the command of req in rec, or attaches to one, and returns its stream
// before anything of it is read.
func (d *Daemon) open(ctx context.Context, c caller, rec session.Record, req api.ExecRequest, cl client) (*stream, error) {
	if err := checkExec(req); err != nil {
		return nil, err
	}
	if err := running(rec); err != nil {
		return nil, err
	}
	if req.Attach == "" {
		if err := d.upToDate(ctx, rec); err != nil {
			return nil, err
		}
	}
	shim, err := d.connect(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", rec.ID, err)
	}
	m := session.Msg{Type: session.MsgAttach, Exec: req.Attach, From: req.From, Stdin: req.Stdin}
	if req.Attach == "" {
		m = session.Msg{Type: session.MsgExec, Run: &session.Command{
			Argv: req.Argv, Env: req.Env, Cwd: req.Cwd, TTY: req.TTY, Rows: req.Rows, Cols: req.Cols,
			Stdin: req.Stdin || req.Input != "",
		}}
		d.record(rec, c, "exec", "", nil) // what is run is the session's own business
	}
	if err := shim.Write(m, nil); err != nil {
		shim.Close()
		if errors.Is(err, wire.ErrTooLarge) {
			return nil, &api.Error{
				Code: api.ExitUsage, Message: fmt.Sprintf("the command and its environment are larger than %d bytes", wire.MaxHeader),
				Hint: "pass what is long by standard input or a file",
			}
		}
		return nil, fmt.Errorf("session %s: asking its shim: %w", rec.ID, err)
	}
	d.lineSoon(rec, lineDelay)
	s := &stream{shim: shim, client: cl}
	s.changed = sync.NewCond(&s.mu)
	return s, nil
}

// pump carries the shim's messages to the client until the command is over for it.
func (s *stream) pump(detach bool) error {
	for {
		var m session.Msg
		payload, err := s.shim.Read(&m)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = session.ErrGone
			}
			return fmt.Errorf("the command's shim: %w", err)
		}
		done, err := s.message(m, payload, detach)
		if done || err != nil {
			return err
		}
	}
}

func (s *stream) message(m session.Msg, payload []byte, detach bool) (done bool, err error) {
	switch m.Type {
	case session.MsgStarted:
		s.begin(m)
		return detach, s.client.event(api.Event{Type: "started", Exec: m.Exec, Pid: m.Pid, Received: m.Received})
	case session.MsgOut:
		channel := byte(api.ChannelStdout)
		if m.FD == 2 {
			channel = api.ChannelStderr
		}
		return false, s.client.data(channel, m.Offset, payload)
	case session.MsgLost:
		return false, s.client.event(api.Event{Type: "lost", Lost: m.N, Offset: m.Offset})
	case session.MsgCredit:
		return false, s.client.event(api.Event{Type: "ack", Received: s.refill(m)})
	case session.MsgExit:
		e := api.Event{Type: "exit", Exec: m.Exec, Code: &m.Code, Message: m.Message}
		if m.Signal != 0 {
			e.Signal = session.SignalName(m.Signal)
		}
		return true, s.client.event(e)
	case session.MsgRefused:
		return true, &api.Error{Code: m.Code, Message: m.Message}
	case session.MsgError:
		return true, &api.Error{Code: api.ExitExec, Message: m.Message}
	}
	return false, nil // a later shim may say more than we know
}

// begin opens the way for stdin.
func (s *stream) begin(m session.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit, s.received = m.N, m.Received
	s.changed.Broadcast()
}

func (s *stream) refill(m session.Msg) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit += m.N
	s.received = max(s.received, m.Received)
	s.changed.Broadcast()
	return s.received
}

// close ends the stream, not the command.
func (s *stream) close() {
	s.mu.Lock()
	s.ended = true
	s.changed.Broadcast()
	s.mu.Unlock()
	_ = s.shim.Close()
}

// stdin passes bytes on as the shim has room for them.
func (s *stream) stdin(b []byte) error {
	for len(b) > 0 {
		n, err := s.take(int64(min(len(b), session.MaxData)))
		if err != nil {
			return err
		}
		if err := s.shim.Write(session.Msg{Type: session.MsgStdin}, b[:n]); err != nil {
			return fmt.Errorf("sending stdin: %w", err)
		}
		b = b[n:]
	}
	return nil
}

// take waits for credit and uses up to want of it.
func (s *stream) take(want int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.credit == 0 && !s.ended {
		s.changed.Wait()
	}
	if s.ended {
		return 0, errors.New("the stream is closed")
	}
	n := min(want, s.credit)
	s.credit -= n
	return n, nil
}

// control passes on what a client asks beside stdin.
func (s *stream) control(e api.Event) error {
	m := session.Msg{}
	switch e.Type {
	case "eof":
		m.Type = session.MsgEOF
	case "resize":
		m.Type, m.Rows, m.Cols = session.MsgResize, e.Rows, e.Cols
	case "signal":
		n, err := session.ParseSignal(e.Signal)
		if err != nil {
			return usage("%v", err)
		}
		m.Type, m.Signal = session.MsgSignal, n
	default:
		return usage("a client's frame of type %.20q: it may be eof, resize or signal", e.Type)
	}
	if err := s.shim.Write(m, nil); err != nil {
		return fmt.Errorf("asking the shim: %w", err)
	}
	return nil
}

func (d *Daemon) getExecs(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	return d.commands(r.Context(), rec)
}
