package shim

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// fake is a guest that says what a test wants.
type fake struct {
	*rig
	sock net.Conn
	conn *wire.Conn
}

func newFake(t testing.TB) *fake {
	t.Helper()
	ours, their, err := socketpair("guest")
	must(t, err)
	theirs, err := net.FileConn(their)
	must(t, err)
	their.Close()
	f := &fake{sock: theirs, conn: wire.New(theirs)}
	f.rig = rigOn(t, wire.New(ours), execlog.Options{}, func() { theirs.Close() })
	t.Cleanup(func() { theirs.Close() })
	return f
}

func (f *fake) says(m session.Msg, p []byte) {
	f.t.Helper()
	must(f.t, f.conn.Write(m, p))
}

// hears reads the shim's next message.
func (f *fake) hears() (m session.Msg) {
	f.t.Helper()
	_ = f.sock.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := f.conn.Read(&m)
	must(f.t, err)
	return m
}

// command starts a command that the fake has been told of.
func (f *fake) command(tty, stdin bool) *attached {
	f.t.Helper()
	u := f.run(session.Command{Argv: session.Words{"x"}, TTY: tty, Stdin: stdin})
	if m := f.hears(); m.Type != session.MsgExec {
		f.t.Fatalf("the guest was told %+v", m)
	}
	return u
}

func TestHostileGuest(t *testing.T) {
	start := session.Msg{Type: session.MsgStarted, ID: 1, Pid: 7}
	exit := session.Msg{Type: session.MsgExit, ID: 1}
	out := session.Msg{Type: session.MsgOut, ID: 1, FD: 1}
	type frame struct {
		m session.Msg
		p []byte
	}
	credit := func(n int64) session.Msg { return session.Msg{Type: session.MsgCredit, ID: 1, N: n} }
	flood := []frame{{start, nil}} // the client does not read, so credit ends some time
	for range 4 * maxLag / session.MaxData {
		flood = append(flood, frame{out, make([]byte, session.MaxData)})
	}
	tests := []struct {
		name   string
		tty    bool
		frames []frame
	}{
		{"unknown id", false, []frame{{session.Msg{Type: session.MsgOut, ID: 2, FD: 1}, []byte("x")}}},
		{"id zero", false, []frame{{session.Msg{Type: session.MsgExit}, nil}}},
		{"output before the start", false, []frame{{out, []byte("x")}}},
		{"exit before the start", false, []frame{{exit, nil}}},
		{"started twice", false, []frame{{start, nil}, {start, nil}}},
		{"started with no pid", false, []frame{{session.Msg{Type: session.MsgStarted, ID: 1}, nil}}},
		{"started with a huge pid", false, []frame{{session.Msg{Type: session.MsgStarted, ID: 1, Pid: 1 << 30}, nil}}},
		{"refused after the start", false, []frame{{start, nil}, {session.Msg{Type: session.MsgRefused, ID: 1, Code: 127}, nil}}},
		{"refused with another code", false, []frame{{session.Msg{Type: session.MsgRefused, ID: 1, Code: 3}, nil}}},
		{"exit twice", false, []frame{{start, nil}, {exit, nil}, {exit, nil}}},
		{"output of a closed stream", false, []frame{{start, nil}, {exit, nil}, {out, []byte("x")}}},
		{"output of a refused command", false, []frame{{session.Msg{Type: session.MsgRefused, ID: 1, Code: 127, Message: "m"}, nil}, {out, []byte("x")}}},
		{"output beyond the credit", false, flood},
		{"empty output", false, []frame{{start, nil}, {out, nil}}},
		{"oversize payload", false, []frame{{start, nil}, {out, make([]byte, session.MaxData+1)}}},
		{"oversize header", false, []frame{{start, nil}, {session.Msg{Type: session.MsgExit, ID: 1, Message: strings.Repeat("m", 100_000)}, nil}}},
		{"channel 0", false, []frame{{start, nil}, {session.Msg{Type: session.MsgOut, ID: 1}, []byte("x")}}},
		{"channel 3", false, []frame{{start, nil}, {session.Msg{Type: session.MsgOut, ID: 1, FD: 3}, []byte("x")}}},
		{"channel 258", false, []frame{{start, nil}, {session.Msg{Type: session.MsgOut, ID: 1, FD: 258}, []byte("x")}}},
		{"stderr of a terminal", true, []frame{{start, nil}, {session.Msg{Type: session.MsgOut, ID: 1, FD: 2}, []byte("x")}}},
		{"credit overflow", false, []frame{{start, nil}, {credit(1), nil}}},
		{"credit of 2^63", false, []frame{{start, nil}, {credit(1<<63 - 1), nil}}},
		{"negative credit", false, []frame{{start, nil}, {credit(-5), nil}}},
		{"no credit", false, []frame{{start, nil}, {credit(0), nil}}},
		{"code 256", false, []frame{{start, nil}, {session.Msg{Type: session.MsgExit, ID: 1, Code: 256}, nil}}},
		{"negative code", false, []frame{{start, nil}, {session.Msg{Type: session.MsgExit, ID: 1, Code: -1}, nil}}},
		{"signal without its code", false, []frame{{start, nil}, {session.Msg{Type: session.MsgExit, ID: 1, Signal: 9}, nil}}},
		{"signal 65", false, []frame{{start, nil}, {session.Msg{Type: session.MsgExit, ID: 1, Signal: 65, Code: 128 + 65}, nil}}},
		{"bytes with an exit", false, []frame{{start, nil}, {exit, []byte("x")}}},
		{"a message of the shim's", false, []frame{{start, nil}, {session.Msg{Type: session.MsgStdin, ID: 1}, nil}}},
		{"an unknown message", false, []frame{{start, nil}, {session.Msg{Type: "wat", ID: 1}, nil}}},
		{"hello again", false, []frame{{session.Msg{Type: "hello"}, nil}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			u := f.command(tt.tty, true)
			for _, fr := range tt.frames {
				if f.conn.Write(fr.m, fr.p) != nil {
					break // the shim has hung up already
				}
			}
			select {
			case err := <-f.ran:
				if !errors.Is(err, errHostile) && !errors.Is(err, wire.ErrTooLarge) && !errors.Is(err, wire.ErrMalformed) {
					t.Errorf("Run returned %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the guest got away with it")
			}
			// The session is over for its client, and its daemon still gets answers.
			u.finish()
			if list := f.ask(session.Msg{Type: session.MsgList}).Commands; len(list) != 1 || list[0].Running {
				t.Errorf("list %+v", list)
			}
		})
	}
}

func TestMalformedFrames(t *testing.T) {
	for name, raw := range map[string][]byte{
		"length of 4 GiB":  binary.BigEndian.AppendUint32(nil, 0xffffffff),
		"header past end":  binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 100),
		"no JSON":          append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 4), "abcd"...),
		"another type":     append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 13), 9), `{"t":123}`...),
		"only whitespaces": append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 4), "    "...),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			_, err := f.sock.Write(append(raw, make([]byte, 64)...))
			must(t, err)
			select {
			case err := <-f.ran:
				if err == nil {
					t.Error("Run took it for an end")
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the guest got away with it")
			}
		})
	}
}

func TestMessageOfAGuestIsTamed(t *testing.T) {
	f := newFake(t)
	u := f.command(false, false)
	f.says(session.Msg{Type: session.MsgRefused, ID: 1, Code: 127, Message: "a\x1b[31m\nb\u202ec" + strings.Repeat("z", 4090)}, nil)
	if end := u.finish(); strings.ContainsAny(end.Message, "\x1b\n\u202e") || len(end.Message) > 2*session.MaxMessage {
		t.Errorf("message %.40q of %d bytes", end.Message, len(end.Message))
	}
}

func TestGuestThatReadsNothing(t *testing.T) {
	f := newFake(t)
	u := f.command(false, true)
	f.says(session.Msg{Type: session.MsgStarted, ID: 1, Pid: 3}, nil)
	u.until(session.MsgStarted)
	for range 4 { // into a socket that nobody reads
		u.say(session.Msg{Type: session.MsgStdin}, strings.Repeat("x", session.MaxData))
	}
	if m := f.ask(session.Msg{Type: session.MsgStatus}); m.Type != session.MsgStatus {
		t.Errorf("status: %+v", m)
	}
	begin := time.Now()
	if m := f.ask(session.Msg{Type: session.MsgStop}); m.Type != session.MsgOK {
		t.Errorf("stop: %+v", m)
	}
	if took := time.Since(begin); took > stopSlack+time.Second {
		t.Errorf("stop took %v", took)
	}
}

// FuzzGuest feeds the shim frames that are well-formed and make no sense: each five
// bytes of the input choose one.
func FuzzGuest(f *testing.F) {
	f.Add([]byte("\x00\x01\x07\x00\x00" + "\x02\x01\x01\x10\x00" + "\x03\x01\x00\x00\x00"))
	f.Add([]byte("\x01\x01\x7f\x00\x00" + "\x02\x01\x01\x10\x00"))
	f.Add([]byte("\x00\x01\x07\x00\x00" + "\x04\x01\x01\xff\xff" + "\x03\x01\x01\x00\x00" + "\x03\x01\x00\x00\x00"))
	types := []string{session.MsgStarted, session.MsgRefused, session.MsgOut, session.MsgExit, session.MsgCredit, session.MsgReady, "hello", ""}
	f.Fuzz(func(t *testing.T, in []byte) {
		a, b := net.Pipe()
		log, err := execlog.Open(t.TempDir(), execlog.Options{})
		must(t, err)
		defer log.Close()
		x := NewExecs(wire.New(a), log, ExecOptions{})
		go func() { _, _ = io.Copy(io.Discard, b) }()
		for i := range 2 {
			_, r, err := x.start(&session.Command{Argv: session.Words{"x"}, TTY: i == 1})
			must(t, err)
			r.Close()
		}
		ran := make(chan error, 1)
		go func() { ran <- x.Run() }()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		w := wire.New(b)
		for ; len(in) >= 5; in = in[5:] {
			v := int(in[3])<<8 | int(in[4])
			m := session.Msg{
				Type: types[in[0]&7], ID: uint32(in[1] & 3), Pid: int(int8(in[2])), FD: int(in[2] & 3), Code: int(in[2]),
				Signal: int(in[1] >> 2 & 31), N: int64(int16(v)), Message: string(in[2:5]),
			}
			var p []byte
			if in[0]&8 == 0 && m.Type == session.MsgOut {
				p = make([]byte, v)
			}
			if w.Write(m, p) != nil {
				break
			}
		}
		_ = b.Close()
		select {
		case <-ran:
		case <-time.After(5 * time.Second):
			t.Fatal("Run does not return")
		}
		for _, s := range log.Streams() {
			if e := s.Entry(); e.Running() {
				t.Errorf("command %d has no end", e.ID)
			}
		}
	})
}

// FuzzGuestBytes feeds the shim anything at all.
func FuzzGuestBytes(f *testing.F) {
	frame := func(h string, p string) string {
		b := binary.BigEndian.AppendUint32(nil, uint32(4+len(h)+len(p)))
		return string(binary.BigEndian.AppendUint32(b, uint32(len(h)))) + h + p
	}
	f.Add([]byte(frame(`{"t":"started","id":1,"pid":4}`, "") + frame(`{"t":"out","id":1,"fd":1}`, "hello") + frame(`{"t":"exit","id":1,"code":3}`, "")))
	f.Add([]byte(frame(`{"t":"refused","id":1,"code":127,"message":"\u001b"}`, "")))
	f.Add([]byte(frame(`{"t":"out","id":1,"run":{"argv":[{"base64":"AA"}]}}`, "")))
	f.Fuzz(func(t *testing.T, in []byte) {
		log, err := execlog.Open(t.TempDir(), execlog.Options{})
		must(t, err)
		defer log.Close()
		x := NewExecs(wire.New(&said{in: strings.NewReader(string(in))}), log, ExecOptions{})
		_, r, err := x.start(&session.Command{Argv: session.Words{"x"}})
		must(t, err)
		r.Close()
		_ = x.Run()
	})
}

// said is a peer that has said everything already.
type said struct{ in *strings.Reader }

func (s *said) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *said) Write(p []byte) (int, error) { return len(p), nil }
func (s *said) Close() error                { return nil }
