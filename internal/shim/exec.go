package shim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// ExecOptions is what Execs has to be told of its session.
type ExecOptions struct {
	// Env is the environment of every command, under the command's own.
	Env []string
	// Project is the directory that commands start in, as its user spells it.
	Project string
	// Running is what status answers.
	Running session.Running
	// Kill ends the sandbox when the guest does not end by itself.
	Kill func()
	// Stopping is called when a stop begins; nil: nobody wants to know.
	Stopping func()
}

// Execs are the commands of one session: what the guest runs, what the log keeps of it,
// and who is attached. The guest is hostile: what it says is taken only of a command
// that is there, in the order that a command has, and within the credit it was given.
type Execs struct {
	conn *wire.Conn // to the guest
	log  *execlog.Log
	opt  ExecOptions
	over chan struct{} // closed when the guest is gone and every command has its end

	mu      sync.Mutex // guards the fields below, and those of commands that say so
	live    map[uint32]*command
	why     string               // the session was ended; "": it was not, or was asked to end
	gone    bool                 // the guest is gone, or about to go: nothing starts any more
	clients map[*client]struct{} // nil once Drain is through
	busy    int                  // clients that have yet to be told something
	quiet   chan struct{}        // closed when busy comes to 0; nil unless Drain waits
}

// NewExecs returns the commands of the session whose guest is at the other end of conn,
// and has said that it is ready. Call Run next.
func NewExecs(conn *wire.Conn, log *execlog.Log, opt ExecOptions) *Execs {
	conn.Limit(maxGuestHeader, session.MaxData)
	return &Execs{
		conn: conn, log: log, opt: opt, over: make(chan struct{}),
		live: map[uint32]*command{}, clients: map[*client]struct{}{},
	}
}

// maxGuestHeader bounds a header of the guest in bytes: the longest is a message of
// session.MaxMessage bytes, of which JSON may make six times as many.
const maxGuestHeader = 32 << 10

// command is a command that runs, or is about to.
type command struct {
	id    uint32
	tty   bool
	out   *execlog.Stream
	begun chan struct{} // closed when the guest has started it, or it has ended

	// Guarded by Execs.mu.
	pid    int
	state  state
	credit int64 // output that the guest may still send, bytes
	due    int64 // output that the log has and the guest got no credit for yet

	in input
}

// state is how far a command is; it only ever grows.
type state uint8

const (
	starting state = iota
	started
	ended
)

// errEnded is returned for a command that is not there any more.
var errEnded = errors.New("the command has ended")

// refusal is why a command was not started.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

// start sends a command to the guest. The reader sees its output from the first byte on.
func (x *Execs) start(run *session.Command) (*command, *execlog.Reader, error) {
	if err := check(run); err != nil {
		return nil, nil, err
	}
	c, err := x.register(run)
	if err != nil {
		return nil, nil, err
	}
	r := c.out.Reader(0)
	full := *run
	full.Cwd = x.directory(run.Cwd)
	full.Env = append(append(session.Words(nil), x.opt.Env...), run.Env...)
	err = x.conn.Write(session.Msg{Type: session.MsgExec, ID: c.id, Run: &full}, nil)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		x.finish(c, session.CodeNotExec, 0, "argument list too long")
	case err != nil:
		x.finish(c, session.CodeOurs, 0, "the session has ended")
	}
	return c, r, nil
}

// directory is where a command starts: a path inside, relative to the project.
func (x *Execs) directory(cwd session.Word) session.Word {
	if cwd != "" && cwd[0] == '/' || x.opt.Project == "" {
		return cwd
	}
	return session.Word(strings.TrimSuffix(x.opt.Project+"/"+string(cwd), "/"))
}

func check(run *session.Command) error {
	if run == nil || len(run.Argv) == 0 {
		return &refusal{session.CodeOurs, "there is no command to start"}
	}
	for _, words := range [][]string{run.Argv, run.Env, {string(run.Cwd)}} {
		for _, w := range words {
			if strings.IndexByte(w, 0) >= 0 {
				return &refusal{session.CodeOurs, "a word of the command holds a NUL byte, which no command can be given"}
			}
		}
	}
	return nil
}

// register gives a command its id and its place in the log.
func (x *Execs) register(run *session.Command) (*command, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		return nil, &refusal{session.CodeOurs, "the session is stopping"}
	}
	if len(x.live) >= session.MaxCommands {
		return nil, &refusal{session.CodeOurs, fmt.Sprintf("%d commands of this session run already", session.MaxCommands)}
	}
	out, err := x.log.Create(run.Argv, run.TTY)
	if err != nil {
		return nil, err
	}
	c := &command{id: out.ID(), tty: run.TTY, out: out, begun: make(chan struct{}), credit: session.Window}
	c.in.open, c.in.room = run.Stdin, session.Window
	x.live[c.id] = c
	return c, nil
}

// finish ends a command: first in the log, then for everybody.
func (x *Execs) finish(c *command, code, signal int, message string) {
	c.out.End(code, signal, message)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.live, c.id)
	if c.state == starting {
		close(c.begun)
	}
	c.state = ended
}

// find returns the live command of a name, and its stream in the log, which is all that
// is left of one that has ended.
func (x *Execs) find(name string) (*command, *execlog.Stream, error) {
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return nil, nil, fmt.Errorf("command %.20q: %w", name, session.ErrNoCommand)
	}
	s := x.log.Stream(uint32(id))
	if s == nil {
		return nil, nil, fmt.Errorf("command %d: %w", id, session.ErrNoCommand)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live[uint32(id)], s, nil
}

// tell passes a message of a client on to the guest, unless the command has ended.
func (x *Execs) tell(c *command, m session.Msg, payload []byte) error {
	x.mu.Lock()
	over := c.state == ended
	x.mu.Unlock()
	if over {
		return errEnded
	}
	m.ID = c.id
	return x.conn.Write(m, payload)
}

// list is what is known of every command, oldest first. It has to fit one header, so of
// very many, or very wordy ones, only the newest are told.
func (x *Execs) list() []session.CommandInfo {
	streams := x.log.Streams()
	streams = streams[max(0, len(streams)-maxList):]
	var out []session.CommandInfo
	for room := maxWords; len(streams) > 0; streams = streams[:len(streams)-1] {
		info := x.info(streams[len(streams)-1])
		if room -= len(info.Message) + len(strings.Join(info.Argv, " ")); room < 0 {
			break
		}
		out = append(out, info)
	}
	slices.Reverse(out)
	return out
}

// Bounds of a list: commands, and bytes of their words, of which JSON may make six times
// as many.
const (
	maxList  = 500
	maxWords = 128 << 10
)

func (x *Execs) info(s *execlog.Stream) session.CommandInfo {
	e := s.Entry()
	info := session.CommandInfo{
		Exec: strconv.FormatUint(uint64(e.ID), 10), Argv: e.Argv, TTY: e.TTY, Started: e.Started, Ended: e.Ended,
		Running: e.Running(), Code: e.Code, Signal: e.Signal, Message: e.Message, Output: e.Output, Lost: s.First(),
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.live[e.ID]; c != nil {
		info.Pid = c.pid
	}
	return info
}

func (x *Execs) status() *session.ShimStatus {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := &session.ShimStatus{Running: x.opt.Running, Commands: len(x.live)}
	if err := x.log.Err(); err != nil {
		st.LogError = err.Error()
	}
	return st
}

// Bounds of a stop beyond its grace: the guest's own (see guest.stop), and what the
// kernel may take once the sandbox was killed.
const (
	stopSlack = 4 * time.Second
	killSlack = 5 * time.Second
)

// Stop ends every command and the guest: SIGTERM, SIGKILL after the grace, and when even
// the guest does not end, the sandbox around it. It returns when nothing runs any more.
func (x *Execs) Stop(grace time.Duration) error {
	x.mu.Lock()
	x.gone = true
	x.mu.Unlock()
	// Not waited for: a guest that reads nothing must not hold its own end up.
	go func() { _ = x.conn.Write(session.Msg{Type: session.MsgStop, Grace: grace}, nil) }()
	if x.opt.Stopping != nil {
		x.opt.Stopping()
	}
	if x.overWithin(grace + stopSlack) {
		return nil
	}
	if x.opt.Kill != nil {
		x.opt.Kill()
	}
	_ = x.conn.Close()
	if x.overWithin(killSlack) {
		return nil
	}
	return errors.New("the session's commands do not end")
}

func (x *Execs) overWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-x.over:
		return true
	case <-t.C:
		return false
	}
}
