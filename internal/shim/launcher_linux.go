package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// stageEnv names the hidden stage that a re-executed binary is to run.
const stageEnv = "SBXD_STAGE"

// How long things may take that normally take milliseconds. A start on a loaded
// machine with thousands of masks is still well below a minute.
const (
	startTimeout = 60 * time.Second
	stopGrace    = 5 * time.Second // SIGTERM to the commands, then SIGKILL
	killTimeout  = 5 * time.Second
	// spareDelay keeps the making of the next spare out of the way of a session's first
	// command.
	spareDelay = 100 * time.Millisecond
)

// order is what the launcher sends to a fresh shim; the listening socket and the
// layers travel with it as descriptors.
type order struct {
	Record session.Record
	Launch session.Launch
	Layers []layer
}

// layer is a directory whose nested mounts root has cut off.
type layer struct {
	Path string
}

// outcome is the shim's answer, once.
type outcome struct {
	Running session.Running
	Step    string // where it failed
	Error   string
	Rule    bool // a rule refused it, nothing broke
	Early   bool // for no reason of the session: another shim may do
	Planned bool // it can be done; the descriptors may come
}

// Launcher starts shims, each as the user of its session. It implements
// session.Launcher; the zero value is ready.
type Launcher struct {
	mu     sync.Mutex // guards the fields below
	spare  *fresh
	closed bool
	found  *found
}

var _ session.Launcher = (*Launcher)(nil)

// Start starts the processes of r.
func (l *Launcher) Start(ctx context.Context, r session.Record, launch session.Launch) (session.Running, error) {
	listener, err := listen(launch.Socket, r.UID, r.GID)
	if err != nil {
		return session.Running{}, err
	}
	defer listener.Close()
	running, err := l.start(ctx, r, launch, listener)
	if err != nil {
		_ = os.Remove(launch.Socket)
	}
	return running, err
}

func (l *Launcher) start(ctx context.Context, r session.Record, launch session.Launch, listener *os.File) (session.Running, error) {
	layers, names, err := cutLayers(r)
	if err != nil {
		return session.Running{}, err
	}
	defer closeAll(layers)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	findings, err := l.Findings(ctx, launch.Policy.Bwrap, r.Cred())
	if err != nil {
		return session.Running{}, err
	}
	n, err := needOf(r, launch.Policy, findings)
	if err != nil {
		return session.Running{}, err
	}
	o := order{Record: r, Launch: launch, Layers: names}
	files := append([]*os.File{listener}, layers...)
	s := l.takeSpare(n)
	defer l.prepareSoon(n)
	out, err := outcome{}, errNoSpare
	if s != nil {
		out, err = s.launch(ctx, o, launch.Made, files)
	}
	var notMade *notMadeError
	if (err != nil && !errors.As(err, &notMade) || out.Early) && ctx.Err() == nil { // none, or one that died waiting
		if s != nil {
			s.end()
		}
		if s, err = spawn(n); err != nil {
			return session.Running{}, err
		}
		out, err = s.launch(ctx, o, launch.Made, files)
	}
	defer s.link.Close()
	if err == nil && out.Error == "" {
		go func() { _, _ = s.process.Wait() }() // no zombie while the daemon lives
		return out.Running, nil
	}
	s.end()
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return session.Running{}, fmt.Errorf("start the session: it takes longer than %v", startTimeout)
	case ctx.Err() != nil:
		return session.Running{}, fmt.Errorf("start the session: %w", context.Cause(ctx))
	case errors.As(err, &notMade):
		return session.Running{}, notMade.error
	case err != nil:
		return session.Running{}, fmt.Errorf("start the session: its shim ended: %w", err)
	case out.Rule:
		rule := strings.TrimPrefix(out.Error, session.ErrRefused.Error()+": ")
		return session.Running{}, fmt.Errorf("%w: %s", session.ErrRefused, rule)
	}
	return session.Running{}, fmt.Errorf("start the session (step %s): %s", out.Step, out.Error)
}

// needOf is what the sandbox of a session has to be.
func needOf(r session.Record, p session.Policy, findings bwrap.Findings) (need, error) {
	host, err := holder.SumHost()
	if err != nil {
		return need{}, fmt.Errorf("look at the host: %w", err)
	}
	return need{cred: r.Cred(), host: host, frame: holder.Frame{
		UID: r.UID, Bwrap: findings, OpenNet: r.Network == "open",
		TmpSize: or(p.TmpSize, defaultTmp), ShmSize: or(p.ShmSize, defaultShm),
	}}, nil
}

// fresh is a shim that waits for its order.
type fresh struct {
	need    need
	process *os.Process
	link    *holder.Channel[order, outcome]
	ready   chan struct{} // closed when it takes an order, or err tells why not
	err     error
}

// spawn starts a shim in a session of its own, as the session's user, with nothing of
// the daemon's but one socket.
func spawn(n need) (*fresh, error) {
	mine, theirs, err := socketpair("launch")
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{"sbxd", "shim"}, &os.ProcAttr{
		Dir:   "/",
		Env:   append(stageEnviron("shim"), n.frame.Environ()),
		Files: []*os.File{null, null, null, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true, Credential: credential(n.cred)},
	})
	if err != nil {
		_ = mine.Close()
		return nil, fmt.Errorf("start a shim: %w", err)
	}
	s := &fresh{need: n, process: p, link: holder.NewChannel[order, outcome](mine, maxAnswer), ready: make(chan struct{})}
	go func() {
		defer close(s.ready)
		s.err = s.link.Open()
	}()
	return s, nil
}

// credential is what root gives to a process of a session's user; anybody else is that
// user already.
func credential(c session.Cred) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	groups := make([]uint32, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = uint32(g)
	}
	return &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID), Groups: groups}
}

// stageEnviron is the whole environment of a stage.
func stageEnviron(stage string) []string {
	env := []string{stageEnv + "=" + stage}
	for _, name := range []string{"SBXD_TEST_WITHOUT", "SBXD_FAULT", "SBXD_FAULT_LOG", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// errNoSpare is why a start needs a new shim.
var errNoSpare = errors.New("no spare shim")

// launch sends the order, and the descriptors once the shim knows that it can be done and
// the session is made; ctx bounds both. What made says is its own error, errNotMade.
func (s *fresh) launch(ctx context.Context, o order, made func() error, files []*os.File) (outcome, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.link.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if <-s.ready; s.err != nil {
		return outcome{}, s.err
	}
	out, err := s.ask(o, nil)
	if err != nil || !out.Planned {
		return out, err
	}
	if made != nil {
		if err := made(); err != nil {
			return outcome{}, &notMadeError{err}
		}
	}
	return s.ask(order{}, files)
}

// ask sends one message and waits for its answer.
func (s *fresh) ask(o order, files []*os.File) (outcome, error) {
	if err := s.link.Send(o, files); err != nil {
		return outcome{}, fmt.Errorf("send the order: %w", err)
	}
	out, err := s.link.Receive()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return out, err
}

// notMadeError is why a session has no record or directory, in its own words.
type notMadeError struct{ error }

func (e *notMadeError) Unwrap() error { return e.error }

// Dial connects to the shim of r.
func (l *Launcher) Dial(ctx context.Context, r session.Record, socket string) (net.Conn, error) {
	if shim := r.Running.Shim; shim != (proc.ID{}) && shim.Alive() == proc.Dead {
		return nil, session.ErrGone
	}
	var d net.Dialer
	dir, name, err := shortPath(socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrGone, err)
	}
	defer dir.Close()
	c, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrGone, err)
	}
	return c, nil
}
