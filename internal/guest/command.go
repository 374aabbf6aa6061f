package guest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/session"
)

// maxPending is how many signals may wait for a command that is still being started.
const maxPending = 16

// command is one command of the session, from its exec message to its exit message.
type command struct {
	id     uint32
	run    *session.Command
	window window
	in     *input        // nil without stdin
	exited chan struct{} // closed once status holds

	mu      sync.Mutex // guards the fields below
	pid     int        // also its process group and session; 0 before the start
	reaped  bool       // pid may be another process's
	status  syscall.WaitStatus
	master  *os.File
	pending []syscall.Signal
}

func newCommand(id uint32, run *session.Command) *command {
	c := &command{id: id, run: run, exited: make(chan struct{})}
	c.window.init(session.Window)
	if run.Stdin {
		c.in = newInput()
	}
	return c
}

// live takes a command through its life.
func (g *guest) live(c *command) {
	defer g.commands.Done()
	s, err := g.launch(c)
	if err != nil {
		g.forget(c)
		g.send(refused(c.id, err), nil)
		return
	}
	g.send(session.Msg{Type: session.MsgStarted, ID: c.id, Pid: c.pid}, nil)
	for _, o := range s.outputs {
		go o.pump(&c.window, g.sender(c.id))
	}
	fed := make(chan struct{})
	go func() { g.feed(c, s); close(fed) }()
	<-c.exited
	c.in.close()
	for _, o := range s.outputs {
		o.end()
	}
	for _, o := range s.outputs {
		<-o.drained
	}
	s.close()
	<-fed // nothing is said of a command after its exit
	g.forget(c)
	g.send(exit(c.id, c.status), nil)
}

// feed carries stdin until its end.
func (g *guest) feed(c *command, s *stdio) {
	if c.in == nil {
		return
	}
	last, over := c.in.pump(s.in, func(n int64) {
		g.send(session.Msg{Type: session.MsgCredit, ID: c.id, N: n}, nil)
	})
	switch {
	case over: // live closes it
	case s.master != nil:
		endOfFile(s.master, last)
	default:
		_ = s.in.Close()
	}
}

// launch starts the process of c.
func (g *guest) launch(c *command) (*stdio, error) {
	env := environ(c.run)
	dir, err := openDir(string(c.run.Cwd))
	if err != nil {
		return nil, refuse(session.CodeOurs, "start in directory %s: %v", shown(string(c.run.Cwd)), err)
	}
	defer unix.Close(dir)
	if len(c.run.Argv) == 0 {
		return nil, refuse(session.CodeOurs, "there is no command to start")
	}
	path, why := find(dir, c.run.Argv[0], env)
	if why != nil {
		return nil, why
	}
	s, err := openStdio(c.run)
	if err != nil {
		return nil, refuse(session.CodeOurs, "%v", err)
	}
	j := &job{command: c, path: path, argv: c.run.Argv, done: make(chan struct{}), attr: syscall.ProcAttr{
		Dir: fmt.Sprintf("/proc/self/fd/%d", dir), Env: env, Files: s.fds(),
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: s.master != nil},
	}}
	g.jobs <- j
	<-j.done
	if j.err != nil {
		s.closeAll()
		return nil, cannotRun(c.run.Argv[0], j.err)
	}
	if s.master == nil {
		s.closeChild()
	}
	c.started(j.pid, s.master)
	return s, nil
}

func cannotRun(name string, err error) error {
	if errors.Is(err, errStopping) {
		return errStopping
	}
	if code := codeOf(err); code != session.CodeNotFound {
		return refuse(code, "%s: %v", shown(name), err)
	}
	return refuse(session.CodeNotFound, "%s: its interpreter or loader is not there", shown(name))
}

// environ is the environment of a command: a terminal without a type gets the plainest
// one that has colours.
func environ(run *session.Command) []string {
	env := lastOf(run.Env)
	if !run.TTY {
		return env
	}
	for _, kv := range env {
		if len(kv) >= 5 && kv[:5] == "TERM=" {
			return env
		}
	}
	return append(env, "TERM=xterm")
}

// started notes the pid and does what was asked for in the meantime.
func (c *command) started(pid int, master *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid, c.master = pid, master
	if master != nil {
		_ = setSize(master, c.run.Rows, c.run.Cols)
	}
	for _, sig := range c.pending {
		c.kill(sig)
	}
	c.pending = nil
}

// signal sends sig to the process group of the command.
func (c *command) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid != 0 || len(c.pending) == maxPending {
		c.kill(sig)
		return
	}
	c.pending = append(c.pending, sig)
}

// kill is called with mu held, under which reap frees the pid: it cannot be another's.
func (c *command) kill(sig syscall.Signal) {
	if c.pid != 0 && !c.reaped {
		_ = syscall.Kill(-c.pid, sig)
	}
}

// resize changes the size of the command's terminal.
func (c *command) resize(rows, cols uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.master != nil {
		_ = setSize(c.master, rows, cols)
		return
	}
	c.run.Rows, c.run.Cols = rows, cols
}

// reap takes the status of the dead process.
func (c *command) reap(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = waitFor(pid)
	c.reaped = true
	close(c.exited)
}

func (g *guest) forget(c *command) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byID, c.id)
}

func refused(id uint32, err error) session.Msg {
	m := session.Msg{Type: session.MsgRefused, ID: id, Code: session.CodeOurs, Message: err.Error()}
	if r, ok := errors.AsType[*refusal](err); ok {
		m.Code = r.code
	}
	return m
}

func exit(id uint32, status syscall.WaitStatus) session.Msg {
	m := session.Msg{Type: session.MsgExit, ID: id, Code: status.ExitStatus()}
	if status.Signaled() {
		m.Signal = int(status.Signal())
		m.Code = session.CodeSignal + m.Signal
	}
	return m
}
