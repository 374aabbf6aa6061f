// Package shim is the process that keeps one session: it starts the sandbox from a
// thread that lives as long as the session, serves the daemon on the session's own
// socket, holds output and exit codes, and goes on when the daemon dies. Everything of
// it runs as the session's user without a capability.
//
// The one idea of a start: a sandbox needs to know very little of its session, so it is
// made first, with a guest that waits in it, and the session comes after. A spare shim
// has done the first half before anybody asks.
//
// It knows how a record becomes a sandbox (plan), how the sandbox is started and ended,
// and the frames to guest and daemon. It must not know HTTP, landing or any other
// session.
package shim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/peer"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// launchFD is the socket to the launcher.
const launchFD = 3

// Main is the shim's whole life: it makes the sandbox and waits for its order (a spare shim
// does so for long), makes the session, and serves until the sandbox has ended.
func Main() int {
	runtime.LockOSThread() // parent-death signals go by thread
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGINT)
	unix.Umask(0o077)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	begun := mind()
	conn, err := holder.ConnOf(launchFD)
	if err != nil {
		return 1
	}
	launcher := holder.NewChannel[outcome, order](conn, maxOrder)
	frame, err := holder.FrameOf()
	if err != nil {
		return 1
	}
	s := &shim{frame: frame}
	early := doSteps([]step{{"holder", func() (err error) { s.inner, err = startHolder(s.frame); return err }}})
	ordered := make(chan error, 1)
	go func() { ordered <- s.await(launcher) }() // which needs no sandbox
	if early == nil {
		early = s.prepare()
	}
	running, err := s.obey(early, <-ordered)
	if errors.Is(err, errNobody) {
		s.end()
		return 1
	}
	out := outcome{Running: running}
	if err != nil {
		s.end()
		out = failure(err)
		out.Early = early != nil || errors.Is(err, errDied)
	}
	begun() // from here on the launcher may go
	answered := launcher.Send(out, nil)
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

// errNobody says that the launcher went away: there is nobody to tell.
var errNobody = errors.New("the launcher is gone")

// await waits for the order, plans it, and waits for the session's directories, with
// which the descriptors come.
func (s *shim) await(launcher *holder.Channel[outcome, order]) (err error) {
	if err := launcher.Accept(); err != nil {
		return errNobody
	}
	s.rehearse()
	if s.order, err = launcher.Receive(); err != nil {
		return errNobody
	}
	s.record, s.launch = s.order.Record, s.order.Launch
	if err := doSteps([]step{{"plan", func() (err error) { s.planned, err = s.plan(); return err }}}); err != nil {
		return err
	}
	if err := launcher.Send(outcome{Planned: true}, nil); err != nil {
		return errNobody
	}
	_, s.files, err = launcher.ReceiveFiles()
	// The listening socket first, then the layers, then, perhaps, who registers backing files.
	if extra := len(s.files) - len(s.order.Layers) - 1; err != nil || extra < 0 || extra > 1 {
		return errNobody
	}
	return nil
}

// obey makes the session of the order, unless that, or the sandbox, went wrong.
func (s *shim) obey(early, ordered error) (session.Running, error) {
	if errors.Is(ordered, errNobody) {
		return s.running, ordered
	}
	if early != nil {
		return s.running, early
	}
	for _, err := range []error{s.lives(), ordered, doSteps([]step{{"network", s.checkOpen}})} {
		if err != nil {
			return s.running, err
		}
	}
	return s.start(&s.planned, s.files)
}

// maxOrder bounds an order in bytes: a record with its rules.
const maxOrder = 64 << 20

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
	frame   holder.Frame
	inner   *inner
	running session.Running
	guest   *wire.Conn
	user    string   // login name, "" for a uid without one
	missing []string // security layers that this host lacks
	mounts  int      // that the sandbox had without a session

	order    order
	record   session.Record
	launch   session.Launch
	planned  plan
	files    []*os.File // what came with the session's directories
	listener net.Listener
	log      *execlog.Log
	execs    *Execs
	held     []*os.File // sets of placeholders that are in use
}

// step is a part of a start with the name that an error and a fault know it by.
type step struct {
	name string
	do   func() error
}

func doSteps(steps []step) error {
	for _, step := range steps {
		err := fault.Hit("shim." + step.name)
		if err == nil {
			err = step.do()
		}
		if err != nil {
			return &stepError{step.name, err}
		}
	}
	return nil
}

// prepare makes the sandbox of the holder, which needs no session yet. Afterwards nobody
// may look into the shim; before, the holder could not be given its ids
// (user_namespaces(7)).
func (s *shim) prepare() error {
	deadline := time.Now().Add(startTimeout)
	return doSteps([]step{
		{"hide", func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }},
		{"frame", func() error { return s.inner.framed(deadline) }},
		{"bwrap", func() error { return s.identify(deadline) }},
		{"mounter", func() error { return s.inner.meet(deadline) }},
		{"guest", func() error { return s.greet(deadline) }},
		{"mounts", func() (err error) { s.mounts, err = mountCount(s.running.Guest.Pid); return err }},
		{"lock", s.lock},
	})
}

// start makes the session that was planned in the sandbox.
func (s *shim) start(p *plan, files []*os.File) (session.Running, error) {
	deadline := time.Now().Add(startTimeout)
	layers := files[1 : 1+len(s.order.Layers)]
	var built holder.Answer
	err := doSteps([]step{
		{"socket", func() error { return s.adopt(files[0]) }},
		{"dirs", func() error { return s.makeDirs(p) }},
		{"tree", func() (err error) {
			built, err = s.inner.build(p.spec, layers, s.serving(files[1+len(layers):]), deadline)
			return err
		}},
		{"arrive", func() error { return s.arrived(built.Mounts) }},
		{"log", func() error {
			closeAll(layers)
			s.running.View = session.Kernel
			if served(p.spec) {
				s.running.View = session.Unionfs
			}
			s.running.Missing = append(s.frame.Sandbox().Missing(), s.missing...)
			s.running.Warnings = append(p.warnings, built.Warnings...)
			return s.open(s.running)
		}},
		{"guard", func() error { return s.guard(p.spec, s.running.Guest) }},
	})
	return s.running, err
}

func (s *shim) lock() error {
	lacks, err := lockDown()
	if lacks != "" {
		s.missing = append(s.missing, lacks)
	}
	return err
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
func (s *shim) identify(deadline time.Time) error {
	box, err := s.inner.ready(deadline)
	if err != nil {
		return err
	}
	r := &s.running
	r.MountNS = box.MountNS
	if r.Shim, err = proc.Self(); err != nil {
		return err
	}
	if r.Bwrap, err = proc.Of(s.inner.process.Pid); err != nil {
		return err
	}
	guest, err := proc.ChildIn(s.inner.process.Pid, box.ChildPid)
	if err == nil {
		r.Guest, err = proc.Of(guest)
	}
	return err
}

// lives reports whether the sandbox that was prepared, and the mounter, are still there.
func (s *shim) lives() error {
	select {
	case <-s.inner.ended:
		return fmt.Errorf("%w: bubblewrap", errDied)
	default:
	}
	if peer.Polls(s.inner.mounter, unix.POLLRDHUP) {
		return fmt.Errorf("%w: the mounter", errDied)
	}
	return nil
}

// end ends the sandbox. The session's directories are the launcher's to remove.
func (s *shim) end() {
	if s.inner != nil {
		s.inner.kill()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
}
