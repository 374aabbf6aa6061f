// Package guest is pid 1 of a session: it starts the session's commands at the shim's
// word, carries their input and output, and reaps every process that nobody else does.
// The one idea is that whatever it starts inherits the sandbox around it, so nothing
// ever has to enter the sandbox from outside.
//
// It knows the messages of package session, processes, pipes and ptys. It must not know
// what it is confined by (but for Landlock, which it lays on its commands itself), and
// it holds nothing that an agent may not have: the agent has its uid, and the shim
// believes none of its frames.
package guest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// Main serves the shim on descriptor fd, a connected unix stream socket, until it is
// told to stop or the shim is gone, and returns the exit code of the process. As pid 1
// its end is the end of every process of the session.
func Main(fd int) int {
	if err := run(fd); err != nil {
		fmt.Fprintf(os.Stderr, "sbxd guest: %v\n", err)
		return 1
	}
	return 0
}

func run(fd int) error {
	if err := setUp(); err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "shim")
	sock, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		return fmt.Errorf("use the shim's socket: %w", err)
	}
	g := newGuest(wire.New(sock))
	defer g.conn.Close()
	missing, err := g.startStarter()
	if err != nil {
		return err
	}
	if _, err := wire.Handshake(g.conn, session.Protocol); err != nil {
		return err
	}
	if err := g.conn.Write(session.Msg{Type: session.MsgReady, Missing: missing}, nil); err != nil {
		return err
	}
	go g.reap()
	return g.serve()
}

// setUp makes the process one that its commands can neither look into nor inherit from.
// Every descriptor but stdin, stdout and stderr becomes close-on-exec first of all.
func setUp() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("mark descriptors close-on-exec: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid to be looked into: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	unix.Umask(0o022) // not that of whoever started the daemon
	swallowSignals()
	return nil
}

// swallowSignals catches what would end this process, or what a parent may have left
// ignored. Caught, not ignored: execve(2) gives a caught signal its default action
// back in the child, while an ignored one stays ignored.
func swallowSignals() {
	signal.Notify(make(chan os.Signal, 1), // nobody listens: they are dropped
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT,
		unix.SIGBUS, unix.SIGFPE, unix.SIGUSR1, unix.SIGSEGV, unix.SIGUSR2, unix.SIGPIPE,
		unix.SIGALRM, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGXCPU, unix.SIGXFSZ,
		unix.SIGVTALRM, unix.SIGPROF, unix.SIGIO, unix.SIGPWR, unix.SIGSYS,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT)
	// Go leaves alone what C libraries keep for their threads, and glibc's posix_spawn(3),
	// by which make starts things, hands the first of them on ignored. All zero: SIG_DFL.
	var action [4]uint64
	for _, reserved := range []uintptr{32, 34} {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, reserved, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

// guest is the state of pid 1.
type guest struct {
	conn *wire.Conn
	jobs chan *job     // to the thread that forks
	born chan struct{} // a process was forked
	none chan struct{} // offered by the reaper while there is no process

	commands sync.WaitGroup // one for each command whose end was not yet told

	mu       sync.Mutex // guards the fields below
	byID     map[uint32]*command
	stopping bool

	// forks is held over each fork and until the new pid is in byPid, so that the reaper
	// knows every pid it sees. It guards byPid.
	forks sync.Mutex
	byPid map[int]*command
}

func newGuest(conn *wire.Conn) *guest {
	return &guest{
		conn: conn, jobs: make(chan *job), born: make(chan struct{}, 1), none: make(chan struct{}),
		byID: map[uint32]*command{}, byPid: map[int]*command{},
	}
}

// serve obeys the shim until the connection ends. Its end after a stop is no error.
func (g *guest) serve() error {
	for {
		var m session.Msg
		payload, err := g.conn.Read(&m)
		if err != nil {
			if g.isStopping() {
				return nil
			}
			if errors.Is(err, io.EOF) {
				return errors.New("the shim is gone")
			}
			return err
		}
		if err := g.obey(&m, payload); err != nil {
			return err
		}
	}
}

// obey does what one message says. A message for a command that has ended is no error:
// the shim may not know yet. An error is a fault of the shim and ends the session.
func (g *guest) obey(m *session.Msg, payload []byte) error {
	switch m.Type {
	case session.MsgExec:
		return g.accept(m)
	case session.MsgStop:
		go g.stop(m.Grace)
		return nil
	}
	c := g.find(m.ID)
	if c == nil {
		return nil
	}
	switch m.Type {
	case session.MsgStdin:
		return c.in.push(payload)
	case session.MsgEOF:
		c.in.finish()
	case session.MsgSignal:
		c.signal(syscall.Signal(m.Signal))
	case session.MsgResize:
		c.resize(m.Rows, m.Cols)
	case session.MsgCredit:
		c.window.add(m.N)
	default:
		return fmt.Errorf("message %.20q of the shim is unknown", m.Type)
	}
	return nil
}

// accept registers the command of an exec message and starts it without waiting.
func (g *guest) accept(m *session.Msg) error {
	if m.Run == nil {
		return errors.New("exec message without a command")
	}
	c := newCommand(m.ID, m.Run)
	g.mu.Lock()
	if g.byID[m.ID] != nil {
		g.mu.Unlock()
		return fmt.Errorf("command %d was started twice", m.ID)
	}
	g.byID[m.ID] = c
	g.commands.Add(1)
	g.mu.Unlock()
	go g.live(c)
	return nil
}

func (g *guest) find(id uint32) *command {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byID[id]
}

func (g *guest) isStopping() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopping
}

// send writes a message of a command. A connection that is broken ends serve, and with
// it the session; here is nothing to do about it.
func (g *guest) send(m session.Msg, payload []byte) { _ = g.conn.Write(m, payload) }
