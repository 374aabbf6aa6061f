package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/backing"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/session"
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

// launch sends the order, and the descriptors once the shim knows that it can be done; ctx
// bounds both.
func (s *fresh) launch(ctx context.Context, o order, g *goods) (outcome, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.link.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if <-s.ready; s.err != nil {
		return outcome{}, s.err
	}
	out, err := s.ask(o, nil)
	if err != nil || !out.Planned {
		return out, err
	}
	files, err := g.files()
	if err != nil {
		return outcome{}, err
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

// goods are the descriptors that a shim gets when it has planned its session.
type goods struct {
	record   session.Record
	launch   session.Launch
	layers   []*os.File
	listener *os.File // nil until somebody asked
	backing  *os.File // of the process that registers backing files, where there is one
}

// ownError is what went wrong on the launcher's side: another shim would not help.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// files waits for the session to be made and returns its socket and layers. Before it is
// on record nobody else would ever remove the socket.
func (g *goods) files() (_ []*os.File, err error) {
	if g.launch.Made != nil {
		if err := g.launch.Made(); err != nil {
			return nil, &ownError{err}
		}
	}
	if g.listener == nil {
		if g.listener, err = listen(g.launch.Socket, g.record.UID, g.record.GID); err != nil {
			return nil, &ownError{err}
		}
	}
	files := append([]*os.File{g.listener}, g.layers...)
	if g.backing == nil && g.canPass() {
		g.backing = startBacking(g.record.UID, g.record.GID, g.launch.Dir)
	}
	if g.backing != nil {
		files = append(files, g.backing)
	}
	return files, nil
}

// canPass reports whether files of the session can pass through the kernel: root has to
// register them, and nobody counts what is written to them.
func (g *goods) canPass() bool {
	p := g.launch.Policy
	return os.Geteuid() == 0 && g.launch.Backend == session.Unionfs && p.ChangesSize == 0 && p.ChangedFiles == 0
}

// startBacking starts the process that lets the kernel read and write files of the session
// itself, and returns the socket to it. Without one all goes through the views' server.
func startBacking(uid, gid int, dir string) *os.File {
	// Above it are directories of the user: nothing but a directory is opened, nor read.
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	state := os.NewFile(uintptr(fd), dir)
	defer state.Close()
	socket, p, err := backing.Start(uid, gid, state)
	if err != nil {
		return nil
	}
	go func() { _, _ = p.Wait() }() // no zombie while the daemon lives
	return socket
}

func (g *goods) close() {
	_ = g.listener.Close()
	_ = g.backing.Close()
}
