package daemon

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// testShim keeps commands and their output.
type testShim struct {
	order    session.Launch
	mu       sync.Mutex // guards the fields below, and those of commands
	commands []*testCommand
	changed  *sync.Cond
}

type testCommand struct {
	info     session.CommandInfo
	out      []chunk
	stdin    io.WriteCloser
	owner    *wire.Conn // whose stdin counts: what an earlier client still had under way does not
	received int64
	writing  sync.Mutex // keeps the order of what two clients sent
	cmd      *exec.Cmd
}

type chunk struct {
	fd int
	b  []byte
}

func shimMain() {
	go endWithSuite()
	s := &testShim{}
	s.changed = sync.NewCond(&s.mu)
	if err := json.Unmarshal([]byte(os.Getenv("SBXD_ORDER")), &s.order); err != nil {
		panic(err)
	}
	ln, err := net.FileListener(os.NewFile(4, "socket"))
	if err != nil {
		panic(err)
	}
	ready := os.NewFile(3, "ready")
	_, _ = ready.WriteString("ok")
	_ = ready.Close()
	for {
		conn, err := ln.Accept()
		if err != nil {
			panic(err)
		}
		go s.serve(conn)
	}
}

func (s *testShim) serve(conn net.Conn) {
	w := wire.New(conn)
	defer w.Close()
	if _, err := wire.Handshake(w, session.Protocol); err != nil {
		return
	}
	var mine *testCommand
	for {
		var m session.Msg
		b, err := w.Read(&m)
		if err != nil {
			return
		}
		switch m.Type {
		case session.MsgStatus:
			n := 0
			for _, c := range s.list() {
				if c.Running {
					n++
				}
			}
			err = w.Write(session.Msg{Type: session.MsgStatus, Status: &session.ShimStatus{Commands: n}}, nil)
		case session.MsgList:
			err = w.Write(session.Msg{Type: session.MsgList, Commands: s.list()}, nil)
		case session.MsgStop:
			s.killAll()
			_ = w.Write(session.Msg{Type: session.MsgOK}, nil)
			os.Exit(0)
		case session.MsgExec:
			mine = s.exec(w, m.Run)
		case session.MsgAttach:
			mine = s.attach(w, m)
		default:
			err = s.forward(w, mine, m, b)
		}
		if err != nil {
			return
		}
	}
}

func (s *testShim) list() []session.CommandInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []session.CommandInfo{}
	for _, c := range s.commands {
		list = append(list, c.info)
	}
	return list
}

func (s *testShim) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if c.info.Running {
			_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
		}
	}
	for _, c := range s.commands {
		for c.info.Running {
			s.changed.Wait()
		}
	}
}

func (s *testShim) exec(w *wire.Conn, run *session.Command) *testCommand {
	c := &testCommand{info: session.CommandInfo{Argv: run.Argv, Started: time.Now(), Running: true, TTY: run.TTY}, owner: w}
	c.cmd = exec.Command(run.Argv[0], run.Argv[1:]...)
	c.cmd.Env = append(append(os.Environ(), "SBXD_STAGE="), run.Env...)
	c.cmd.Dir = filepath.Join(s.order.Dir, "project/upper")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if run.Stdin {
		c.stdin, _ = c.cmd.StdinPipe()
	}
	stdout, _ := c.cmd.StdoutPipe()
	stderr, _ := c.cmd.StderrPipe()
	if err := c.cmd.Start(); err != nil {
		_ = w.Write(session.Msg{Type: session.MsgRefused, Code: session.CodeNotFound, Message: err.Error()}, nil)
		return nil
	}
	s.mu.Lock()
	c.info.Exec, c.info.Pid = strconv.Itoa(len(s.commands)+1), c.cmd.Process.Pid
	s.commands = append(s.commands, c)
	s.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { s.copy(c, 1, stdout) })
	wg.Go(func() { s.copy(c, 2, stderr) })
	go func() {
		wg.Wait()
		_ = c.cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		c.info.Running = false
		c.info.Code = c.cmd.ProcessState.ExitCode()
		if ws := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
			c.info.Signal, c.info.Code = int(ws.Signal()), 128+int(ws.Signal())
		}
		s.changed.Broadcast()
	}()
	_ = w.Write(session.Msg{Type: session.MsgStarted, Exec: c.info.Exec, Pid: c.info.Pid, N: session.Window}, nil)
	go s.follow(w, c, 0)
	return c
}

func (s *testShim) copy(c *testCommand, fd int, r io.Reader) {
	b := make([]byte, 8192)
	for {
		n, err := r.Read(b)
		s.mu.Lock()
		c.out = append(c.out, chunk{fd, append([]byte(nil), b[:n]...)})
		c.info.Output += int64(n)
		s.changed.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *testShim) attach(w *wire.Conn, m session.Msg) *testCommand {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if c.info.Exec == m.Exec {
			c.owner = w
			_ = w.Write(session.Msg{Type: session.MsgStarted, Exec: m.Exec, Pid: c.info.Pid, Received: c.received, N: session.Window}, nil)
			go s.follow(w, c, m.From)
			return c
		}
	}
	_ = w.Write(session.Msg{Type: session.MsgError, Message: session.ErrNoCommand.Error()}, nil)
	return nil
}

// follow sends the output from a place on, then the exit.
func (s *testShim) follow(w *wire.Conn, c *testCommand, from int64) {
	var at int64
	for i := 0; ; i++ {
		s.mu.Lock()
		for i >= len(c.out) && c.info.Running {
			s.changed.Wait()
		}
		if i >= len(c.out) {
			m := session.Msg{Type: session.MsgExit, Exec: c.info.Exec, Code: c.info.Code, Signal: c.info.Signal}
			s.mu.Unlock()
			_ = w.Write(m, nil)
			return
		}
		o := c.out[i]
		s.mu.Unlock()
		skip := min(max(from-at, 0), int64(len(o.b)))
		if int(skip) < len(o.b) && w.Write(session.Msg{Type: session.MsgOut, FD: o.fd, Offset: at + skip}, o.b[skip:]) != nil {
			return
		}
		at += int64(len(o.b))
	}
}

func (s *testShim) forward(w *wire.Conn, c *testCommand, m session.Msg, b []byte) error {
	if c == nil {
		return nil
	}
	switch m.Type {
	case session.MsgStdin:
		s.mu.Lock()
		if c.owner != w {
			s.mu.Unlock()
			return nil
		}
		c.received += int64(len(b))
		received := c.received
		s.mu.Unlock()
		c.writing.Lock()
		_, _ = c.stdin.Write(b)
		c.writing.Unlock()
		return w.Write(session.Msg{Type: session.MsgCredit, N: int64(len(b)), Received: received}, nil)
	case session.MsgEOF:
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.owner != w {
			return nil
		}
		_ = c.stdin.Close() // a client that attached again says it again
		return nil
	case session.MsgSignal:
		return unix.Kill(-c.cmd.Process.Pid, unix.Signal(m.Signal))
	}
	return nil
}
