// Package shim is the process that keeps one session: it starts the sandbox from a
// thread that lives as long as the session, serves the daemon on the session's own
// socket, holds output and exit codes, and goes on when the daemon dies. Everything of
// it runs as the session's user without a capability.
//
// It knows how a record becomes a sandbox (plan), how the sandbox is started and ended,
// and the frames to guest and daemon. It must not know HTTP, landing or any other
// session.
package shim

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// launchFD is the socket to the launcher.
const launchFD = 3

// Main is the shim's whole life. It waits for its order (a spare shim does so for
// long), starts the sandbox, answers once, and serves until the sandbox has ended.
func Main() int {
	runtime.LockOSThread() // parent-death signals go by thread
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGINT)
	unix.Umask(0o077)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	conn, err := launchConn()
	if err != nil {
		return 1
	}
	waiting := prestart()
	o, files, err := receive(conn)
	if err != nil {
		if waiting != nil {
			waiting.inner.kill()
		}
		return 1 // the launcher went away: nobody to tell
	}
	s := &shim{order: o, record: o.Record, launch: o.Launch, waiting: waiting}
	begun := s.mind(conn)
	running, err := s.start(files)
	out := outcome{Running: running}
	if err != nil {
		out = failure(err)
	}
	begun() // from here on the launcher may go
	answered := gob.NewEncoder(conn).Encode(out)
	_ = conn.Close()
	if err != nil {
		return 1
	}
	if answered != nil {
		s.end() // the daemon died or gave up before it knew of us
		return 1
	}
	s.serve()
	return 0
}

// mind ends the start and this process when the launcher goes away or gives up, which
// is to close its end: nobody would ever know of the session. begun is called when the
// start is through.
func (s *shim) mind(conn net.Conn) (begun func()) {
	var through atomic.Bool
	go func() {
		_, _ = conn.Read(make([]byte, 1)) // the launcher has nothing more to say
		if through.CompareAndSwap(false, true) {
			endOrphans()
			os.Exit(1)
		}
	}()
	return func() {
		if !through.CompareAndSwap(false, true) {
			select {} // it is ending
		}
	}
}

func launchConn() (*net.UnixConn, error) {
	f := os.NewFile(launchFD, "launch")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("descriptor 3 is no unix socket")
	}
	return u, nil
}

// receive reads the order and the descriptors that came with it: the session's
// listening socket first, then the layers.
func receive(conn *net.UnixConn) (o order, files []*os.File, err error) {
	count := make([]byte, 1)
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	_, n, _, _, err := conn.ReadMsgUnix(count, oob)
	if err != nil {
		return o, nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return o, nil, errors.New("no descriptors came with the order")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return o, nil, err
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), "passed"))
	}
	err = gob.NewDecoder(io.LimitReader(conn, maxOrder)).Decode(&o)
	if err == nil && len(files) != len(o.Layers)+1 {
		err = errors.New("descriptors and order do not match")
	}
	return o, files, err
}

// Bounds of an order: a socket and two layers; a record with its rules.
const (
	maxFiles = 8
	maxOrder = 64 << 20
)

// failure turns an error of a start into the launcher's answer.
func failure(err error) outcome {
	out := outcome{Error: err.Error(), Step: "shim", Rule: errors.Is(err, session.ErrRefused)}
	var s *stepError
	if errors.As(err, &s) {
		out.Step = s.step
	}
	return out
}

type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// shim is one session's process.
type shim struct {
	order    order
	record   session.Record
	launch   session.Launch
	waiting  *prestarted
	listener net.Listener
	inner    *inner
	guest    *wire.Conn
	log      *execlog.Log
	execs    *Execs
	held     []*os.File // sets of placeholders that are in use
	warnings []string
}

// start does every step of a start; on an error no process of it is left.
func (s *shim) start(files []*os.File) (running session.Running, err error) {
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	deadline := time.Now().Add(startTimeout)
	var p plan
	var missing []string
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"socket", func() error { return s.adopt(files[0]) }},
		{"plan", func() (err error) { p, err = s.plan(files[1:]); return err }},
		{"dirs", func() error { return s.makeDirs(&p) }},
		{"holder", func() error { return s.clone(p.spec.OpenNet, files[1:]) }},
		{"tree", func() (err error) { s.warnings, err = s.inner.build(p.spec, deadline); return err }},
		{"bwrap", func() (err error) { running, err = s.identify(deadline); return err }},
		{"guest", func() (err error) { missing, err = s.greet(deadline); return err }},
		{"lock", func() (err error) {
			lacks, err := lockDown()
			if lacks != "" {
				missing = append(missing, lacks)
			}
			return err
		}},
	} {
		err := fault.Hit("shim." + step.name)
		if err == nil {
			err = step.do()
		}
		if err != nil {
			return running, &stepError{step.name, err}
		}
	}
	closeAll(files[1:])
	running.View = "kernel"
	running.Missing = append(p.spec.Sandbox().Missing(), missing...)
	running.Warnings = append(p.warnings, s.warnings...)
	if err := s.open(running); err != nil {
		return running, &stepError{"log", err}
	}
	if err := s.guard(p.spec, running.Guest); err != nil {
		return running, &stepError{"guard", err}
	}
	return running, nil
}

// clone takes the holder that waits, or clones one. From then on nobody may look into
// the shim; before, the clone could not be given its ids (user_namespaces(7)).
func (s *shim) clone(openNet bool, layers []*os.File) (err error) {
	s.inner, s.waiting = s.waiting.take(openNet, layers), nil
	if s.inner == nil {
		if s.inner, err = startHolder(openNet, layers); err != nil {
			return err
		}
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// adopt takes over the session's listening socket.
func (s *shim) adopt(f *os.File) error {
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("use the session's socket: %w", err)
	}
	s.listener = l
	return nil
}

// identify waits for bubblewrap's own word and names the processes by pid and start
// time, so that a later reader can tell them from strangers.
func (s *shim) identify(deadline time.Time) (r session.Running, err error) {
	box, err := s.inner.ready(deadline)
	if err != nil {
		return r, err
	}
	r.MountNS = box.MountNS
	if r.Shim, err = proc.Self(); err != nil {
		return r, err
	}
	if r.Bwrap, err = proc.Of(s.inner.process.Pid); err != nil {
		return r, err
	}
	r.Guest, err = proc.Of(box.ChildPid)
	return r, err
}

// end ends the sandbox. The session's directories are the launcher's to remove.
func (s *shim) end() {
	if s.waiting != nil {
		s.waiting.inner.kill()
	}
	if s.inner != nil {
		s.inner.kill()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
}
