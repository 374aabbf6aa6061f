package shim

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// client is one connection of the daemon.
type client struct {
	x      *Execs
	conn   *wire.Conn
	ctx    context.Context // of the connection
	cancel func()
	run    *command // its command while that is live or was when it began; nil before
	bound  bool     // it has had its exec or attach

	credit chan struct{} // owed has grown
	owed   int64         // credit for stdin to be passed on; guarded by Execs.mu
}

// serve answers until the connection ends.
func (cl *client) serve() {
	for {
		var m session.Msg
		payload, err := cl.conn.Read(&m)
		if err != nil {
			return
		}
		if err := cl.answer(&m, payload); err != nil && !errors.Is(err, errEnded) {
			if cl.say(session.Msg{Type: session.MsgError, Exec: m.Exec, Message: err.Error()}) != nil {
				return
			}
		}
	}
}

func (cl *client) say(m session.Msg) error { return cl.conn.Write(m, nil) }

// answer does what one message asks. Its error is told to the client.
func (cl *client) answer(m *session.Msg, payload []byte) error {
	switch m.Type {
	case session.MsgExec:
		return cl.exec(m.Run)
	case session.MsgAttach:
		return cl.attach(m)
	case session.MsgList:
		return cl.say(session.Msg{Type: session.MsgList, Commands: cl.x.list()})
	case session.MsgStatus:
		return cl.say(session.Msg{Type: session.MsgStatus, Status: cl.x.status()})
	case session.MsgStop:
		return cl.stop(m.Grace)
	case session.MsgSignal, session.MsgResize:
		return cl.pass(m)
	case session.MsgStdin, session.MsgEOF:
		switch {
		case cl.run == nil && cl.bound:
			return errEnded // it had ended when it was attached to
		case cl.run == nil:
			return session.ErrNoCommand
		}
		if m.Type == session.MsgEOF {
			return cl.x.endInput(cl.run, cl)
		}
		return cl.x.feed(cl.run, cl, payload)
	}
	return errors.New("no such message")
}

// bind lets a connection have one command.
func (cl *client) bind() error {
	if cl.bound {
		return errors.New("this connection has a command already; open another")
	}
	cl.bound = true
	return nil
}

func (cl *client) exec(run *session.Command) error {
	if err := cl.bind(); err != nil {
		return err
	}
	c, r, err := cl.x.start(run)
	if err != nil {
		m := session.Msg{Type: session.MsgRefused, Code: session.CodeOurs, Message: err.Error()}
		if why, ok := errors.AsType[*refusal](err); ok {
			m.Code = why.code
		}
		return cl.say(m)
	}
	cl.run = c
	cl.x.own(c, cl)
	cl.x.toTell()
	go cl.follow(c, c.out, r, run.Stdin)
	return nil
}

func (cl *client) attach(m *session.Msg) error {
	if err := cl.bind(); err != nil {
		return err
	}
	c, s, err := cl.x.find(m.Exec)
	if err != nil {
		return err
	}
	cl.run = c
	r := s.Reader(m.From)
	cl.x.toTell()
	go cl.follow(c, s, r, m.Stdin)
	return nil
}

// pass sends a signal or a size to the command that m names, or to the connection's own.
// The first is answered, the second, in the midst of output, is not.
func (cl *client) pass(m *session.Msg) error {
	c, name := cl.run, m.Exec
	if name != "" {
		var err error
		if c, _, err = cl.x.find(name); err != nil {
			return err
		}
	}
	if c == nil && name == "" && !cl.bound {
		return session.ErrNoCommand
	}
	if m.Type == session.MsgSignal && (m.Signal < 1 || m.Signal > 64) {
		return errors.New("no such signal")
	}
	if c != nil { // else it has ended, which is what most signals want
		err := cl.x.tell(c, session.Msg{Type: m.Type, Signal: m.Signal, Rows: m.Rows, Cols: m.Cols}, nil)
		if err != nil && !errors.Is(err, errEnded) {
			return err
		}
	}
	if name == "" {
		return nil
	}
	return cl.say(session.Msg{Type: session.MsgOK, Exec: name})
}

// maxGrace bounds what a stop may wait.
const maxGrace = 10 * time.Minute

func (cl *client) stop(grace time.Duration) error {
	cl.x.toTell()
	defer cl.x.told()
	if err := cl.x.Stop(min(max(grace, 0), maxGrace)); err != nil {
		return err
	}
	return cl.say(session.Msg{Type: session.MsgOK})
}

// follow tells the client of its command until both its output and its end are told.
func (cl *client) follow(c *command, s *execlog.Stream, r *execlog.Reader, stdin bool) {
	defer cl.x.told()
	defer func() {
		r.Close()
		if c != nil {
			cl.x.pay(c) // somebody less to wait for
		}
	}()
	name := strconv.FormatUint(uint64(s.ID()), 10)
	if c != nil {
		select {
		case <-c.begun:
		case <-cl.ctx.Done():
			return
		}
	}
	if err := cl.sayStarted(c, s, name, stdin); err != nil {
		return
	}
	for {
		chunk, err := r.Next(cl.ctx)
		if errors.Is(err, io.EOF) {
			_ = cl.say(last(s, name))
			return
		}
		if err != nil {
			return
		}
		if cl.sayChunk(chunk) != nil {
			return
		}
		if c != nil {
			cl.x.pay(c)
		}
	}
}

// sayStarted is left out for a command that never ran.
func (cl *client) sayStarted(c *command, s *execlog.Stream, name string, stdin bool) error {
	m := session.Msg{Type: session.MsgStarted, Exec: name}
	if neverRan(s.Entry()) {
		return nil
	}
	if c != nil {
		cl.x.mu.Lock()
		m.Pid = c.pid
		cl.x.mu.Unlock()
	}
	if c != nil && stdin {
		m.Received, m.N = cl.x.own(c, cl)
		go cl.passCredit(c)
	}
	return cl.say(m)
}

func neverRan(e execlog.Entry) bool { return !e.Running() && e.Message != "" && e.Signal == 0 }

func (cl *client) sayChunk(c execlog.Chunk) error {
	if c.Lost > 0 {
		return cl.say(session.Msg{Type: session.MsgLost, Offset: c.Offset, N: c.Lost})
	}
	return cl.conn.Write(session.Msg{Type: session.MsgOut, FD: int(c.FD), Offset: c.Offset}, c.Data)
}

// last is the message that ends a command.
func last(s *execlog.Stream, name string) session.Msg {
	e := s.Entry()
	m := session.Msg{Type: session.MsgExit, Exec: name, Code: e.Code, Signal: e.Signal, Message: e.Message, Offset: e.Output}
	if neverRan(e) {
		m.Type = session.MsgRefused
	}
	return m
}

// passCredit tells the client how much more stdin it may send. It is apart from the
// guest's messages, so that a client that does not read holds nobody up.
func (cl *client) passCredit(c *command) {
	for {
		select {
		case <-cl.credit:
		case <-cl.ctx.Done():
			return
		}
		cl.x.mu.Lock()
		m := session.Msg{Type: session.MsgCredit, N: cl.owed, Received: c.in.received}
		mine := c.in.owner == cl
		cl.owed = 0
		cl.x.mu.Unlock()
		if !mine {
			continue
		}
		if m.N > 0 && cl.say(m) != nil {
			return
		}
	}
}
