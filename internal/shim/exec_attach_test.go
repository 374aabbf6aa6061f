package shim

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/session"
)

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
	last := r.attach(u.name, 0, true)
	for _, m := range []session.Msg{{Type: session.MsgResize, Rows: 1, Cols: 1}, {Type: session.MsgStdin}, {Type: session.MsgEOF}} {
		_ = last.conn.Write(m, nil) // which it cannot know that nobody takes
	}
	if end := last.finish(); end.Code != 4 {
		t.Errorf("with input: %+v", end)
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
