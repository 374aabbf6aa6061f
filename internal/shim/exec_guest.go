package shim

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// errHostile is wrapped by every error about a message that an honest guest never sends.
var errHostile = errors.New("the guest broke the protocol")

// Run takes what the guest says until it is gone, and returns nil, or until it breaks
// the protocol, and returns how. Either way the connection is closed then and every
// command has its end in the log; the caller ends the sandbox.
func (x *Execs) Run() error {
	err := x.hear()
	_ = x.conn.Close()
	x.mu.Lock()
	x.gone = true
	why := cmp.Or(x.why, "the session ended while it ran")
	left := make([]*command, 0, len(x.live))
	for _, c := range x.live {
		left = append(left, c)
	}
	x.mu.Unlock()
	for _, c := range left {
		x.finish(c, session.CodeSignal+sigkill, sigkill, why)
	}
	close(x.over)
	if errors.Is(err, errHostile) || errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrTooLarge) {
		return err
	}
	return nil // killed, perhaps in the middle of a frame
}

const sigkill = 9

// End ends the session at once, and says why to those who wait for a command.
func (x *Execs) End(why string) {
	x.mu.Lock()
	x.why, x.gone = why, true
	x.mu.Unlock()
	x.opt.Kill()
}

// Why tells why the session was ended, or "".
func (x *Execs) Why() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.why
}

func (x *Execs) hear() error {
	for {
		var m session.Msg
		payload, err := x.conn.Read(&m)
		if err != nil {
			return err
		}
		if err := x.take(&m, payload); err != nil {
			return fmt.Errorf("%w: %.20q of command %d: %w", errHostile, m.Type, m.ID, err)
		}
	}
}

// take does what one message of the guest says, or refuses it.
func (x *Execs) take(m *session.Msg, payload []byte) error {
	c, st := x.lookup(m.ID)
	if c == nil {
		return errors.New("there is no such command")
	}
	if len(payload) > 0 && m.Type != session.MsgOut {
		return errors.New("bytes that belong to nothing")
	}
	switch m.Type {
	case session.MsgStarted:
		return x.takeStarted(c, m.Pid)
	case session.MsgRefused:
		if st != starting {
			return errors.New("it was started before")
		}
		if m.Code != session.CodeOurs && m.Code != session.CodeNotExec && m.Code != session.CodeNotFound {
			return fmt.Errorf("code %d is none of a refusal", m.Code)
		}
		x.finish(c, m.Code, 0, cmp.Or(oneLine(m.Message), "it could not be started"))
		return nil
	}
	if st != started {
		return errors.New("it was not started")
	}
	switch m.Type {
	case session.MsgOut:
		return x.takeOutput(c, m.FD, payload)
	case session.MsgCredit:
		return x.takeCredit(c, m.N)
	case session.MsgExit:
		return x.takeExit(c, m.Code, m.Signal)
	}
	return errors.New("no such message")
}

func (x *Execs) lookup(id uint32) (*command, state) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.live[id]
	if c == nil {
		return nil, ended
	}
	return c, c.state
}

func (x *Execs) takeStarted(c *command, pid int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c.state != starting || pid <= 0 || pid > maxPid {
		return fmt.Errorf("started with pid %d", pid)
	}
	c.pid, c.state = pid, started
	close(c.begun)
	return nil
}

// maxPid is the highest pid that Linux gives (PID_MAX_LIMIT, proc(5)).
const maxPid = 1 << 22

func (x *Execs) takeExit(c *command, code, signal int) error {
	byCode := signal == 0 && code >= 0 && code <= 255
	bySignal := signal >= 1 && signal <= 64 && code == session.CodeSignal+signal
	if !byCode && !bySignal {
		return fmt.Errorf("ended with code %d and signal %d", code, signal)
	}
	x.finish(c, code, signal, "")
	return nil
}

// oneLine makes a message of the guest fit for a terminal: bounded, printable, one line.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), session.MaxMessage)], "?")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
