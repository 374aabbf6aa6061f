package shim

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// rig is the exec side of a shim with a real guest and a real socket, without bubblewrap.
type rig struct {
	t      testing.TB
	x      *Execs
	log    *execlog.Log
	dir    string // of the log
	socket string
	guest  *os.Process
	ran    chan error // what Run returned
}

func newRig(t testing.TB, opt execlog.Options) *rig {
	t.Helper()
	testbox.Need(t, "userns")
	ours, theirs, err := socketpair("guest")
	must(t, err)
	size := 1
	if os.Geteuid() == 0 {
		size = 65536
	}
	cmd := exec.Command("/proc/self/exe", "guest", "3")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: size}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: size}},
		GidMappingsEnableSetgroups: size > 1,
	}
	must(t, cmd.Start())
	theirs.Close()
	conn := wire.New(ours)
	_, err = wire.Handshake(conn, session.Protocol)
	must(t, err)
	var ready session.Msg
	_, err = conn.Read(&ready)
	must(t, err)
	r := rigOn(t, conn, opt, func() { _ = cmd.Process.Kill() })
	r.guest = cmd.Process
	t.Cleanup(func() {
		_ = conn.Close()
		_ = cmd.Wait()
	})
	return r
}

// rigOn makes a rig whose guest is at the other end of conn, whatever that is.
func rigOn(t testing.TB, conn *wire.Conn, opt execlog.Options, kill func()) *rig {
	t.Helper()
	r := &rig{t: t, dir: testbox.TempDir(t), ran: make(chan error, 1)}
	r.socket = filepath.Join(testbox.TempDir(t), "s")
	var err error
	r.log, err = execlog.Open(r.dir, opt)
	must(t, err)
	l, err := net.Listen("unix", r.socket)
	must(t, err)
	r.x = NewExecs(conn, r.log, ExecOptions{
		Env:  []string{"PATH=/usr/local/bin:/usr/bin:/bin", "BASE=1"},
		Kill: kill,
	})
	go func() { r.ran <- r.x.Run() }()
	go func() { _ = r.x.Serve(l) }()
	t.Cleanup(func() {
		_ = conn.Close()
		<-r.x.over
		_ = l.Close()
		r.x.Drain(0)
		r.log.Close()
	})
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// attached is a client as the daemon is one.
type attached struct {
	t    testing.TB
	sock net.Conn
	conn *wire.Conn
	name string // of the command

	out  [3]bytes.Buffer
	at   int64 // next offset
	lost int64
	end  session.Msg
}

func (r *rig) dial() *attached {
	r.t.Helper()
	sock, err := net.Dial("unix", r.socket)
	must(r.t, err)
	u := &attached{t: r.t, sock: sock, conn: wire.New(sock)}
	_, err = wire.Handshake(u.conn, session.Protocol)
	must(r.t, err)
	r.t.Cleanup(u.close)
	return u
}

func (u *attached) close() { _ = u.conn.Close() }

func (u *attached) say(m session.Msg, p string) {
	u.t.Helper()
	must(u.t, u.conn.Write(m, []byte(p)))
}

// next reads one message and keeps account of output.
func (u *attached) next() session.Msg {
	u.t.Helper()
	_ = u.sock.SetReadDeadline(time.Now().Add(15 * time.Second))
	var m session.Msg
	p, err := u.conn.Read(&m)
	if err != nil {
		u.t.Fatalf("after %d bytes: %v", u.at, err)
	}
	switch m.Type {
	case session.MsgStarted:
		u.name = m.Exec
	case session.MsgOut:
		if m.Offset != u.at {
			u.t.Fatalf("output at %d, want %d", m.Offset, u.at)
		}
		u.out[m.FD].Write(p)
		u.at += int64(len(p))
	case session.MsgLost:
		if m.Offset != u.at {
			u.t.Fatalf("a gap at %d, want %d", m.Offset, u.at)
		}
		u.lost += m.N
		u.at += m.N
	}
	return m
}

// until reads on to a message of type typ.
func (u *attached) until(typ string) session.Msg {
	u.t.Helper()
	for {
		m := u.next()
		switch m.Type {
		case typ:
			return m
		case session.MsgExit, session.MsgRefused, session.MsgError:
			u.t.Fatalf("%+v where %s was due; output %.500q", m, typ, u.out[1].String())
		}
	}
}

// see reads on until stdout holds text.
func (u *attached) see(text string) {
	u.t.Helper()
	for !strings.Contains(u.out[1].String(), text) {
		u.until(session.MsgOut)
	}
}

// finish reads on to the end of the command.
func (u *attached) finish() session.Msg {
	u.t.Helper()
	for {
		m := u.next()
		if m.Type == session.MsgExit || m.Type == session.MsgRefused {
			u.end = m
			return m
		}
		if m.Type == session.MsgError {
			u.t.Fatalf("error: %s", m.Message)
		}
	}
}

func (r *rig) run(c session.Command) *attached {
	r.t.Helper()
	u := r.dial()
	u.say(session.Msg{Type: session.MsgExec, Run: &c}, "")
	return u
}

func (r *rig) sh(script string) *attached {
	r.t.Helper()
	return r.run(session.Command{Argv: session.Words{"bash", "-c", script}})
}

func (r *rig) attach(name string, from int64, stdin bool) *attached {
	r.t.Helper()
	u := r.dial()
	u.at = from
	u.say(session.Msg{Type: session.MsgAttach, Exec: name, From: from, Stdin: stdin}, "")
	return u
}

// ask sends one message on a connection of its own and returns the answer.
func (r *rig) ask(m session.Msg) session.Msg {
	r.t.Helper()
	u := r.dial()
	defer u.close()
	u.say(m, "")
	return u.next()
}

func sha(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
