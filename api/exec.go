package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Size is a terminal's size.
type Size struct{ Rows, Cols uint16 }

// Streams are the caller's ends of a command. Nil writers drop, a nil Stdin sends
// nothing. The channels may be nil; they are read until the command ends.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan Size
	Signals        <-chan string // names: INT, TERM, …
	// Started is called once with the command's id, which Attach takes.
	Started func(exec string, pid int)
}

// Exit is how a command ended.
type Exit struct {
	Exec   string
	Code   int // as `docker exec` gives it
	Signal string
	Lost   int64 // output bytes that came too fast to keep; 0 as a rule
}

// Bounds of a client's patience.
const (
	// reattachFor is how long a daemon may be away under a running command.
	reattachFor = 30 * time.Second
	// window is how much standard input may be under way unacknowledged: it is kept to
	// be sent again after a break.
	window = 256 << 10
	// maxFrame bounds one frame of the WebSocket.
	maxFrame = 1 << 20
)

// Exec runs a command in a session, or attaches to one, and returns when it ends (or,
// with Detach, when it has started). A daemon that goes away under a running command
// is waited for up to 30 seconds and the command is attached to again, so that its
// restart goes unnoticed. An error is an *Error, or the context's cause.
func (c *Client) Exec(ctx context.Context, id string, r ExecRequest, s Streams) (Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &execution{client: c, session: id, req: r, streams: s, have: r.From}
	x.input.init()
	if r.Attach != "" {
		x.exec = r.Attach
	}
	switch {
	case r.Stdin && s.Stdin != nil:
		go x.input.fill(s.Stdin)
	case r.Stdin:
		x.input.ended = true
	}
	defer x.input.close()
	return x.run(ctx)
}

// execution is one Exec over any number of connections.
type execution struct {
	client  *Client
	session string
	req     ExecRequest
	streams Streams
	exec    string // id, once started
	have    int64  // output bytes received, over both channels
	lost    int64
	input   input
}

func (x *execution) run(ctx context.Context) (Exit, error) {
	var since time.Time // when the daemon went away
	for {
		exit, err := x.once(ctx, func() { since = time.Time{} })
		if err == nil {
			return *exit, nil
		}
		var told *Error
		if cause := context.Cause(ctx); cause != nil {
			return Exit{Exec: x.exec}, cause
		}
		gone := !errors.As(err, &told) || told.Code == ExitNoDaemon
		if !gone || x.exec == "" || x.req.Detach {
			return Exit{Exec: x.exec}, x.explain(err)
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > reattachFor {
			return Exit{Exec: x.exec}, x.explain(err)
		}
		select {
		case <-ctx.Done():
			return Exit{Exec: x.exec}, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (x *execution) explain(err error) error {
	var told *Error
	if errors.As(err, &told) {
		return told
	}
	e := &Error{Code: ExitFailed, Message: fmt.Sprintf("the connection to the daemon broke: %v", err)}
	if x.exec != "" {
		e.Hint = "the command may run on: sbxd exec --attach " + x.exec + " " + x.session
	}
	return e
}

// once drives one connection: until the command ends (exit), or the connection breaks.
func (x *execution) once(ctx context.Context, up func()) (*Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ws, err := x.open(ctx)
	if err != nil {
		return nil, err
	}
	defer ws.CloseNow()
	first := x.req
	if x.exec != "" {
		first = ExecRequest{Attach: x.exec, From: x.have, Stdin: x.req.Stdin, TTY: x.req.TTY}
	}
	if err := writeJSON(ctx, ws, first); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		kind, b, err := ws.Read(ctx)
		if err != nil {
			return nil, err
		}
		if kind == websocket.MessageBinary {
			if err := x.output(b); err != nil {
				return nil, err
			}
			continue
		}
		var e Event
		if err := json.Unmarshal(b, &e); err != nil {
			return nil, &Error{Code: ExitFailed, Message: fmt.Sprintf("reading the daemon's frame: %v", err)}
		}
		if exit, err := x.event(e); exit != nil || err != nil {
			return exit, err
		}
		if e.Type == "started" { // it told from where stdin goes on
			up()
			wg.Go(func() { x.send(ctx, ws) })
		}
	}
}

func (x *execution) open(ctx context.Context) (*websocket.Conn, error) {
	ws, resp, err := websocket.Dial(ctx, host+"/"+Version+session(x.session, "exec"), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: single{x.client}},
	})
	if err == nil {
		ws.SetReadLimit(maxFrame)
		return ws, nil
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols && resp.Body != nil {
		return nil, decodeFailure(resp)
	}
	var told *Error
	if e := x.client.unreached(ctx, err); !errors.As(e, &told) || told.Code != ExitFailed {
		return nil, e
	}
	return nil, err // it went away while it answered, and may come back
}

func (x *execution) output(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	w := x.streams.Stdout
	if b[0] == ChannelStderr {
		w = x.streams.Stderr
	}
	x.have += int64(len(b) - 1)
	if w == nil {
		return nil
	}
	if _, err := w.Write(b[1:]); err != nil {
		return &Error{Code: ExitFailed, Message: fmt.Sprintf("writing the command's output: %v", err)}
	}
	return nil
}

// event handles a text frame; exit is not nil when the command is over for us.
func (x *execution) event(e Event) (*Exit, error) {
	switch e.Type {
	case "started":
		if x.exec != e.Exec || x.streams.Started != nil {
			x.exec = e.Exec
			if f := x.streams.Started; f != nil {
				x.streams.Started = nil
				f(e.Exec, e.Pid)
			}
		}
		x.input.rewind(e.Received)
		if x.req.Detach {
			return &Exit{Exec: x.exec}, nil
		}
	case "ack":
		x.input.acked(e.Received)
	case "lost":
		x.lost += e.Lost
		x.have += e.Lost
	case "exit", "error":
		if e.Code == nil {
			return nil, &Error{Code: ExitFailed, Message: "the daemon's event of type " + e.Type + " has no code"}
		}
		if e.Type == "error" {
			return nil, &Error{Code: *e.Code, Message: e.Message}
		}
		return &Exit{Exec: x.exec, Code: *e.Code, Signal: e.Signal, Lost: x.lost}, nil
	}
	return nil, nil
}

func writeJSON(ctx context.Context, ws *websocket.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return &Error{Code: ExitUsage, Message: fmt.Sprintf("encoding the request: %v", err)}
	}
	return ws.Write(ctx, websocket.MessageText, b)
}
