package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

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
