package guest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// inner names, in the environment, that this process is the guest of a test.
const inner = "SBXD_TEST_GUEST"

func TestMain(m *testing.M) {
	if os.Getenv(inner) == "" {
		testbox.Main(m)
	}
	if os.Getenv(inner) == "mount" {
		must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(unix.Mount("proc", "/proc", "proc", 0, ""))
	}
	os.Unsetenv(inner)
	os.Exit(Main(3))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// box is a guest that is pid 1 of its own namespaces, and the shim's end of its socket.
type box struct {
	t     testing.TB
	conn  *wire.Conn
	ready session.Msg
	cmd   *exec.Cmd
	exit  error
	over  chan struct{} // the process has ended

	mu     sync.Mutex // guards the fields below
	next   uint32
	shells map[uint32]*shell
}

// shell is one command in a box.
type shell struct {
	b    *box
	id   uint32
	done chan struct{} // closed with exit or refused

	mu     sync.Mutex // guards the fields below
	more   *sync.Cond
	pid    int
	out    [3]bytes.Buffer
	end    session.Msg
	ended  bool
	credit bool // give credit for what comes
	held   int64
	stdin  int64 // credit for stdin
}

// boot starts a guest without bubblewrap: a user, pid and mount namespace is what it
// needs to be pid 1 and to see its own /proc.
func boot(t testing.TB) *box {
	t.Helper()
	testbox.Need(t, "userns")
	size := 1
	if os.Geteuid() == 0 {
		size = 65536
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), inner+"=mount")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: size}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: size}},
		GidMappingsEnableSetgroups: size > 1,
	}
	return bootWith(t, cmd)
}

// bootBwrap starts a guest as a session has it.
func bootBwrap(t testing.TB, args ...string) *box {
	t.Helper()
	testbox.Need(t, "bwrap")
	self, err := os.Executable()
	must(err)
	args = append([]string{
		"--unshare-all", "--as-pid-1", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
		"--proc", "/proc", "--tmpfs", "/tmp", "--ro-bind", self, "/tmp/guest",
	}, args...)
	cmd := exec.Command("bwrap", append(args, "/tmp/guest")...)
	cmd.Env = append(os.Environ(), inner+"=here")
	return bootWith(t, cmd)
}

func bootWith(t testing.TB, cmd *exec.Cmd) *box {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	theirs, ours := os.NewFile(uintptr(p[1]), ""), os.NewFile(uintptr(p[0]), "")
	cmd.ExtraFiles = []*os.File{theirs}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest said: %s", stderr.Bytes())
		}
	})
	must(cmd.Start())
	theirs.Close()
	sock, err := net.FileConn(ours)
	must(err)
	ours.Close()
	b := &box{t: t, conn: wire.New(sock), cmd: cmd, over: make(chan struct{}), shells: map[uint32]*shell{}}
	go func() { b.exit = cmd.Wait(); close(b.over) }()
	t.Cleanup(b.close)
	if _, err := wire.Handshake(b.conn, session.Protocol); err != nil {
		t.Fatal(err)
	}
	if _, err := b.conn.Read(&b.ready); err != nil || b.ready.Type != session.MsgReady {
		t.Fatalf("ready: %+v, %v", b.ready, err)
	}
	go b.read()
	return b
}

// close ends the guest by closing its socket, as the end of a shim does.
func (b *box) close() {
	b.conn.Close()
	select {
	case <-b.over:
	case <-time.After(5 * time.Second):
		b.t.Error("the guest outlived its shim")
		_ = b.cmd.Process.Kill()
		<-b.over
	}
}

func (b *box) read() {
	for {
		var m session.Msg
		p, err := b.conn.Read(&m)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, s := range b.shells {
				s.take(session.Msg{Type: "gone"}, nil)
			}
			return
		}
		b.mu.Lock()
		s := b.shells[m.ID]
		b.mu.Unlock()
		if s == nil {
			b.t.Errorf("message for a command that was never started: %+v", m)
			continue
		}
		s.take(m, p)
	}
}

func (s *shell) take(m session.Msg, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.more.Broadcast()
	switch {
	case s.ended && m.Type != "gone":
		s.b.t.Errorf("%+v after the end", m)
	case m.Type == session.MsgStarted:
		s.pid = m.Pid
	case m.Type == session.MsgOut:
		s.out[m.FD].Write(p)
		s.held += int64(len(p))
		if s.held > session.Window {
			s.b.t.Errorf("%d bytes of output without credit", s.held)
		}
		s.pay()
	case m.Type == session.MsgCredit:
		s.stdin += m.N
	case !s.ended:
		s.end, s.ended = m, true
		close(s.done)
	}
}

func (s *shell) pay() {
	if s.credit && s.held >= session.Window/4 {
		n := s.held
		s.held = 0
		go s.b.send(session.Msg{Type: session.MsgCredit, ID: s.id, N: n}, nil)
	}
}

func (b *box) send(m session.Msg, p []byte) {
	if err := b.conn.Write(m, p); err != nil {
		b.t.Logf("send %s: %v", m.Type, err)
	}
}

// start begins a command; the zero Command's words are those of sh -c.
func (b *box) start(c session.Command) *shell {
	b.mu.Lock()
	b.next++
	s := &shell{b: b, id: b.next, done: make(chan struct{}), credit: true, stdin: session.Window}
	s.more = sync.NewCond(&s.mu)
	b.shells[s.id] = s
	b.mu.Unlock()
	b.send(session.Msg{Type: session.MsgExec, ID: s.id, Run: &c}, nil)
	return s
}

func (b *box) sh(script string) *shell {
	return b.start(session.Command{Argv: session.Words{"/bin/bash", "-c", script}, Env: testEnv})
}

var testEnv = session.Words{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "LC_ALL=C.UTF-8"}

// wait returns what ended the command.
func (s *shell) wait() session.Msg {
	s.b.t.Helper()
	select {
	case <-s.done:
	case <-time.After(15 * time.Second):
		s.b.t.Fatalf("the command did not end; output %.2000q", s.text(1))
	}
	return s.end
}

// check waits and compares the exit code.
func (s *shell) check(code int) *shell {
	s.b.t.Helper()
	if end := s.wait(); end.Code != code {
		s.b.t.Errorf("ended with %+v, want code %d; stderr %.500q", end, code, s.text(2))
	}
	return s
}

func (s *shell) text(fd int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out[fd].String()
}

// until waits until stdout holds want.
func (s *shell) until(want string) {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(s.b.t.Context(), 10*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { s.mu.Lock(); s.more.Broadcast(); s.mu.Unlock() })()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !strings.Contains(s.out[1].String(), want) {
		if s.ended || ctx.Err() != nil {
			s.b.t.Fatalf("no %q in %.2000q (%+v)", want, s.out[1].String(), s.end)
		}
		s.more.Wait()
	}
}

// type sends stdin and waits for credit where there is none.
func (s *shell) write(p string) {
	for len(p) > 0 {
		s.mu.Lock()
		for s.stdin == 0 && !s.ended {
			s.more.Wait()
		}
		n := min(int64(len(p)), s.stdin, session.MaxData)
		s.stdin -= n
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return
		}
		s.b.send(session.Msg{Type: session.MsgStdin, ID: s.id}, []byte(p[:n]))
		p = p[n:]
	}
}

func (s *shell) eof() { s.b.send(session.Msg{Type: session.MsgEOF, ID: s.id}, nil) }

func (s *shell) signal(sig syscall.Signal) {
	s.b.send(session.Msg{Type: session.MsgSignal, ID: s.id, Signal: int(sig)}, nil)
}

// stop stops the session and returns how long it took.
func (b *box) stop(grace time.Duration) time.Duration {
	b.t.Helper()
	begin := time.Now()
	b.send(session.Msg{Type: session.MsgStop, Grace: grace}, nil)
	select {
	case <-b.over:
	case <-time.After(10 * time.Second):
		b.t.Fatal("the guest did not stop")
	}
	return time.Since(begin)
}
