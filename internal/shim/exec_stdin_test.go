package shim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/session"
)

var cat = session.Command{Argv: session.Words{"cat"}, Stdin: true}

func TestStdinWithinCredit(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.run(session.Command{Argv: session.Words{"bash", "-c", "wc -c; exit 6"}, Stdin: true})
	m := u.until(session.MsgStarted)
	room, sent := m.N, int64(0)
	if room != session.Window || m.Received != 0 {
		t.Errorf("started with %+v", m)
	}
	const total = 3 << 20
	for sent < total {
		for room == 0 {
			m := u.until(session.MsgCredit)
			room += m.N
			if m.Received > sent || m.Received < sent-session.Window {
				t.Fatalf("received %d of %d", m.Received, sent)
			}
		}
		n := min(room, session.MaxData, total-sent)
		u.say(session.Msg{Type: session.MsgStdin}, strings.Repeat("x", int(n)))
		room, sent = room-n, sent+n
	}
	u.say(session.Msg{Type: session.MsgEOF}, "")
	u.say(session.Msg{Type: session.MsgStdin}, "late")
	if end := u.finish(); end.Code != 6 || u.out[1].String() != "3145728\n" {
		t.Errorf("%+v, counted %q", end, u.out[1].String())
	}
}

func TestStdinBeyondCredit(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.run(session.Command{Argv: session.Words{"sleep", "100"}, Stdin: true})
	u.until(session.MsgStarted)
	for range 2 * session.Window / session.MaxData { // its pipe takes some of it
		u.say(session.Msg{Type: session.MsgStdin}, strings.Repeat("x", session.MaxData))
	}
	u.say(session.Msg{Type: session.MsgSignal, Signal: 9}, "")
	refused := 0
	for m := u.next(); m.Type != session.MsgExit; m = u.next() {
		if m.Type == session.MsgError {
			refused++
		}
	}
	if refused == 0 {
		t.Error("more stdin than there was room for was taken")
	}
}

func TestStdinGoesOnWithAnotherClient(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.run(cat)
	u.until(session.MsgStarted)
	u.say(session.Msg{Type: session.MsgStdin}, "one ")
	u.see("one ")
	u.close()
	next := r.attach("1", 4, true)
	m := next.until(session.MsgStarted)
	if m.Received != 4 || m.N <= 0 || m.N > session.Window {
		t.Errorf("started with %+v", m)
	}
	next.say(session.Msg{Type: session.MsgStdin}, "two")
	next.say(session.Msg{Type: session.MsgEOF}, "")
	next.finish()
	if next.out[1].String() != "two" {
		t.Errorf("got %q", next.out[1].String())
	}
}

func TestStdinTakenOver(t *testing.T) {
	r := newRig(t, execlog.Options{})
	first := r.run(cat)
	first.until(session.MsgStarted)
	watcher := r.attach("1", 0, false)
	if m := watcher.until(session.MsgStarted); m.N != 0 {
		t.Errorf("one who only watches got credit: %+v", m)
	}
	watcher.say(session.Msg{Type: session.MsgStdin}, "not mine")
	if m := watcher.next(); m.Type != session.MsgError {
		t.Errorf("stdin of one who watches: %+v", m)
	}
	second := r.attach("1", 0, true)
	second.until(session.MsgStarted)
	first.say(session.Msg{Type: session.MsgStdin}, "too late")
	if m := first.next(); m.Type != session.MsgError {
		t.Errorf("stdin of one who lost it: %+v", m)
	}
	first.say(session.Msg{Type: session.MsgEOF}, "") // neither
	second.say(session.Msg{Type: session.MsgStdin}, "second")
	second.say(session.Msg{Type: session.MsgEOF}, "")
	second.finish()
	first.finish()
	if second.out[1].String() != "second" || first.out[1].String() != "second" {
		t.Errorf("got %q and %q", second.out[1].String(), first.out[1].String())
	}
}

func TestSignalAndResize(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.run(session.Command{
		// Not by a trap for WINCH: bash forgets a signal that comes while its trap runs.
		Argv: session.Words{"sh", "-c", `while :; do now=$(stty size); [ "$now" = "$was" ] || echo "$now"; was=$now; sleep .02; done`},
		TTY:  true, Rows: 24, Cols: 80,
	})
	u.see("24 80")
	u.say(session.Msg{Type: session.MsgResize, Rows: 50, Cols: 132}, "")
	u.see("50 132")
	if m := r.ask(session.Msg{Type: session.MsgResize, Exec: u.name, Rows: 10, Cols: 20}); m.Type != session.MsgOK {
		t.Errorf("resize by name: %+v", m)
	}
	u.see("10 20")
	if m := r.ask(session.Msg{Type: session.MsgSignal, Exec: u.name, Signal: 99}); m.Type != session.MsgError {
		t.Errorf("signal 99: %+v", m)
	}
	if m := r.ask(session.Msg{Type: session.MsgSignal, Exec: u.name, Signal: 9}); m.Type != session.MsgOK {
		t.Errorf("signal by name: %+v", m)
	}
	if end := u.finish(); end.Signal != 9 {
		t.Errorf("%+v", end)
	}
	if m := r.ask(session.Msg{Type: session.MsgSignal, Exec: u.name, Signal: 9}); m.Type != session.MsgOK {
		t.Errorf("signal to one that has ended: %+v", m)
	}
	if m := r.ask(session.Msg{Type: session.MsgSignal, Signal: 9}); m.Type != session.MsgError {
		t.Errorf("signal to nobody: %+v", m)
	}
}

func TestListAndStatus(t *testing.T) {
	r := newRig(t, execlog.Options{})
	r.sh("echo out; exit 3").finish()
	u := r.run(session.Command{Argv: session.Words{"sleep", "100"}, TTY: true})
	u.until(session.MsgStarted)
	list := r.ask(session.Msg{Type: session.MsgList}).Commands
	if len(list) != 2 || list[0].Running || list[0].Code != 3 || list[0].Output != 4 || !list[1].Running || list[1].Pid == 0 || !list[1].TTY {
		t.Errorf("list %+v", list)
	}
	if st := r.ask(session.Msg{Type: session.MsgStatus}).Status; st == nil || st.Commands != 1 || st.LogError != "" {
		t.Errorf("status %+v", st)
	}
}

func TestListFitsItsFrame(t *testing.T) {
	r := newRig(t, execlog.Options{})
	for range 150 {
		r.run(session.Command{Argv: session.Words{"true", strings.Repeat("\x01", 5000)}}).finish()
	}
	m := r.ask(session.Msg{Type: session.MsgList})
	if n := len(m.Commands); n < 100 || n == 150 || m.Commands[n-1].Exec != "150" {
		t.Errorf("%s with %d commands", m.Type, n)
	}
}

func TestOneCommandAConnection(t *testing.T) {
	r := newRig(t, execlog.Options{})
	u := r.run(session.Command{Argv: session.Words{"sleep", "100"}})
	u.until(session.MsgStarted)
	u.say(session.Msg{Type: session.MsgExec, Run: &cat}, "")
	if m := u.next(); m.Type != session.MsgError {
		t.Errorf("a second command: %+v", m)
	}
	u.say(session.Msg{Type: "nonsense"}, "")
	if m := u.next(); m.Type != session.MsgError {
		t.Errorf("nonsense: %+v", m)
	}
}

// BenchmarkExec is one further command of a live session without the daemon: connect,
// exec, exit.
func BenchmarkExec(b *testing.B) {
	r := newRig(b, execlog.Options{})
	for b.Loop() {
		u := r.run(session.Command{Argv: session.Words{"/bin/true"}})
		u.finish()
		u.close()
	}
}

// BenchmarkEcho is a byte there and back.
func BenchmarkEcho(b *testing.B) {
	r := newRig(b, execlog.Options{})
	u := r.run(cat)
	u.until(session.MsgStarted)
	for b.Loop() {
		u.out[1] = bytes.Buffer{}
		u.say(session.Msg{Type: session.MsgStdin}, "x")
		u.see("x")
	}
	u.say(session.Msg{Type: session.MsgSignal, Signal: 9}, "")
	time.Sleep(10 * time.Millisecond)
}
