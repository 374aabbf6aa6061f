package shim

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

func TestExecTellsHowItEnded(t *testing.T) {
	r := newRig(t, execlog.Options{})
	for script, want := range map[string]session.Msg{
		"exit 0":        {Type: session.MsgExit, Code: 0},
		"exit 77":       {Type: session.MsgExit, Code: 77},
		"kill -KILL $$": {Type: session.MsgExit, Code: 137, Signal: 9},
	} {
		u := r.sh(script)
		end := u.finish()
		if end.Type != want.Type || end.Code != want.Code || end.Signal != want.Signal || end.Exec != u.name {
			t.Errorf("%s: %+v", script, end)
		}
		// It was in the index before it was told.
		all, err := execlog.Read(r.dir)
		must(t, err)
		if e := all[len(all)-1]; e.Running() || e.Code != want.Code || e.Signal != want.Signal || fmt.Sprint(e.ID) != u.name {
			t.Errorf("%s: index %+v", script, e)
		}
	}
	for code, run := range map[int]session.Command{
		127: {Argv: session.Words{"no-such-program-here"}},
		126: {Argv: session.Words{"/etc/passwd"}},
		125: {Argv: session.Words{"true"}, Cwd: "/no/such/dir"},
	} {
		if end := r.run(run).finish(); end.Type != session.MsgRefused || end.Code != code || end.Message == "" {
			t.Errorf("want %d: %+v", code, end)
		}
	}
	if end := r.run(session.Command{}).finish(); end.Code != 125 {
		t.Errorf("no words: %+v", end)
	}
	if end := r.run(session.Command{Argv: session.Words{"echo", "a\x00b"}}).finish(); end.Code != 125 || !strings.Contains(end.Message, "NUL") {
		t.Errorf("NUL: %+v", end)
	}
	huge := make(session.Words, 600)
	for i := range huge {
		huge[i] = strings.Repeat("x", 1000)
	}
	if end := r.run(session.Command{Argv: append(session.Words{"true"}, huge...)}).finish(); end.Code != 0 {
		t.Errorf("600 KiB of words: %+v", end)
	}
}

func TestExecEnvironmentAndBytes(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.run(session.Command{Argv: session.Words{"bash", "-c", `echo "$BASE $MORE"; printf %s "$1"`, "-", "\xff\x80"}, Env: session.Words{"MORE=2", "BASE=3"}})
	u.finish()
	if got := u.out[1].String(); got != "3 2\n\xff\x80" {
		t.Errorf("got %q", got)
	}
}

func TestBigOutputIsExact(t *testing.T) {
	r := newRig(t, execlog.Options{})
	const n = 25 << 20
	u := r.sh(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' a & head -c %d /dev/zero | tr '\0' b >&2; wait`, n, n))
	u.finish()
	for fd, c := range map[int]string{1: "a", 2: "b"} {
		if sha(u.out[fd].Bytes()) != sha(bytes.Repeat([]byte(c), n)) {
			t.Errorf("channel %d: %d bytes, want %d", fd, u.out[fd].Len(), n)
		}
	}
	if u.lost != 0 {
		t.Errorf("%d bytes lost for an attached client", u.lost)
	}
}

func TestTwentyCommandsAtOnce(t *testing.T) {
	r := newRig(t, execlog.Options{})
	var wg sync.WaitGroup
	for i := range 20 {
		u := r.sh(fmt.Sprintf("seq %d; seq %d >&2; exit %d", 2000+i, 300+i, i))
		wg.Go(func() {
			if end := u.finish(); end.Code != i {
				t.Errorf("command %d: %+v", i, end)
			}
			if n := bytes.Count(u.out[1].Bytes(), []byte("\n")); n != 2000+i {
				t.Errorf("command %d: %d lines", i, n)
			}
		})
	}
	wg.Wait()
}

func TestSlowClientHoldsItsCommand(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.sh("head -c 30000000 /dev/zero; echo end >&2")
	u.until(session.MsgStarted)
	size := func() int64 { return r.x.list()[0].Output }
	for last := int64(-1); size() != last || last == 0; time.Sleep(100 * time.Millisecond) {
		last = size()
	}
	if n := size(); n < maxLag || n > maxLag+3*session.Window {
		t.Errorf("it went on to %d bytes, a client may lag %d", n, maxLag)
	}
	if end := r.sh("exit 5").finish(); end.Code != 5 {
		t.Errorf("others: %+v", end)
	}
	u.finish()
	if u.out[1].Len() != 30_000_000 || u.out[2].String() != "end\n" || u.lost != 0 {
		t.Errorf("%d bytes, %q, %d lost", u.out[1].Len(), u.out[2].String(), u.lost)
	}
}

func TestVanishedClientFreesItsCommand(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.sh("head -c 20000000 /dev/zero; exit 9")
	u.until(session.MsgStarted)
	u.close() // without having read a byte
	again := r.attach("1", 0, false)
	if end := again.finish(); end.Code != 9 || again.out[1].Len() != 20_000_000 {
		t.Errorf("%+v, %d bytes", end, again.out[1].Len())
	}
}

func TestAttachAgainAndAgainIsExact(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.sh(`for i in $(seq 30000); do echo "line $i"; [ $((i % 3)) = 0 ] && echo "err $i" >&2; done; exit 3`)
	u.until(session.MsgStarted)
	name := u.name
	var out, errs []byte
	for rounds := 0; ; rounds++ {
		var end session.Msg
		for range 1 + rounds*rounds%40 { // leaves in the middle, as a killed daemon does
			if end = u.next(); end.Type == session.MsgExit {
				break
			}
		}
		at := u.at
		out, errs = append(out, u.out[1].Bytes()...), append(errs, u.out[2].Bytes()...)
		if end.Type == session.MsgExit {
			if end.Code != 3 || rounds < 3 {
				t.Errorf("%+v after %d rounds", end, rounds)
			}
			break
		}
		u.close()
		u = r.attach(name, at, false)
	}
	var wantOut, wantErr bytes.Buffer
	for i := 1; i <= 30000; i++ {
		fmt.Fprintf(&wantOut, "line %d\n", i)
		if i%3 == 0 {
			fmt.Fprintf(&wantErr, "err %d\n", i)
		}
	}
	if !bytes.Equal(out, wantOut.Bytes()) || !bytes.Equal(errs, wantErr.Bytes()) {
		t.Errorf("%d and %d bytes, want %d and %d", len(out), len(errs), wantOut.Len(), wantErr.Len())
	}
}

func TestAttachToWhatHasEnded(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.sh("echo some; exit 4")
	u.finish()
	again := r.attach(u.name, 2, true)
	if end := again.finish(); end.Code != 4 || again.out[1].String() != "me\n" {
		t.Errorf("%+v, %q", end, again.out[1].String())
	}
	refused := r.run(session.Command{Argv: session.Words{"no-such-program-here"}})
	refused.finish()
	if end := r.attach("2", 0, false).finish(); end.Type != session.MsgRefused || end.Code != 127 {
		t.Errorf("a refused one: %+v", end)
	}
	for _, name := range []string{"", "0", "99", "-1", "x", "99999999999999999999", "1/../2"} {
		if m := r.ask(session.Msg{Type: session.MsgAttach, Exec: name}); m.Type != session.MsgError {
			t.Errorf("attach to %q: %+v", name, m)
		}
	}
	// From a place that is not there yet: everything was seen.
	if end := r.attach("1", 1000, false).finish(); end.Code != 4 {
		t.Errorf("from beyond the end: %+v", end)
	}
}

func TestRingOverflowIsReported(t *testing.T) {
	r := newRig(t, execlog.Options{Max: 1 << 20, Segment: 64 << 10})
	u := r.sh("read -r x < <(sleep 0.2; echo go); head -c 5000000 /dev/zero; exit 2")
	u.until(session.MsgStarted)
	u.close()
	deadline := time.Now().Add(10 * time.Second)
	for r.x.list()[0].Running && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	again := r.attach("1", 0, false)
	end := again.finish()
	if end.Code != 2 || again.lost < 3_000_000 || again.lost+int64(again.out[1].Len()) != 5_000_000 {
		t.Errorf("%+v: %d lost, %d bytes", end, again.lost, again.out[1].Len())
	}
	if info := r.x.list()[0]; info.Lost != again.lost || info.Output != 5_000_000 || info.Code != 2 {
		t.Errorf("list says %+v", info)
	}
}

func TestShimGoneGuestGone(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.sh("sleep 100")
	u.until(session.MsgStarted)
	_ = r.guest.Kill()
	if end := u.finish(); end.Code != 137 || end.Signal != 9 || end.Message == "" {
		t.Errorf("the guest was killed: %+v", end)
	}
	if err := <-r.ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	if end := r.sh("true").finish(); end.Code != 125 {
		t.Errorf("a command without a guest: %+v", end)
	}
}

func TestStopTellsEverybody(t *testing.T) {
	r := newRig(t, execlog.Options{})
	obeys, ignores := r.sh("echo up; exec sleep 100"), r.sh(`trap "" TERM; echo up; while :; do sleep 0.05; done`)
	obeys.see("up")
	ignores.see("up")
	begin := time.Now()
	if m := r.ask(session.Msg{Type: session.MsgStop, Grace: 300 * time.Millisecond}); m.Type != session.MsgOK {
		t.Errorf("stop: %+v", m)
	}
	if took := time.Since(begin); took < 300*time.Millisecond || took > 3*time.Second {
		t.Errorf("stop took %v", took)
	}
	if end := obeys.finish(); end.Signal != 15 {
		t.Errorf("one that obeys: %+v", end)
	}
	if end := ignores.finish(); end.Signal != 9 {
		t.Errorf("one that does not: %+v", end)
	}
	if err := <-r.ran; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestClientsFromASandboxAreRefused(t *testing.T) {
	if !testbox.Unprivileged(t) {
		return // no session has uid 0
	}
	r := newRig(t, execlog.Options{})
	testbox.Need(t, "python3")
	dir := filepath.Dir(r.socket)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(r.socket, 0o777))
	u := r.sh(`exec python3 -c 'import socket
s=socket.socket(socket.AF_UNIX); s.connect("` + r.socket + `"); print("reached", s.recv(100))'`)
	u.finish()
	if got := u.out[1].String(); got != "reached b''\n" {
		t.Errorf("a process of the session got %q, %s", got, u.out[2].String())
	}
}

func TestDrainEndsConnections(t *testing.T) {
	r := newRig(t, execlog.Options{})
	idle, u := r.dial(), r.sh("echo up; exec sleep 100")
	u.see("up")
	go func() { time.Sleep(50 * time.Millisecond); _ = r.guest.Kill() }()
	<-r.x.over
	r.x.Drain(5 * time.Second)
	u.finish()
	for _, c := range []*attached{idle, u} {
		var m session.Msg
		if _, err := c.conn.Read(&m); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("read after Drain: %v", err)
		}
	}
}
