package guest

import (
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/session"
)

func (b *box) tty(words ...string) *shell {
	return b.start(session.Command{Argv: words, TTY: true, Stdin: true, Rows: 24, Cols: 80, Env: append(testEnv, "TERM=dumb", "PS1=$ ")})
}

// both runs a test with the host's /dev/pts and with that of a real sandbox.
func both(t *testing.T, f func(t *testing.T, b *box)) {
	t.Run("clone", func(t *testing.T) { f(t, boot(t)) })
	t.Run("bwrap", func(t *testing.T) { f(t, bootBwrap(t)) })
}

// retype types a line until the program in front, once it is there, repeats it: what is
// typed while the shell sets the terminal for it is lost to both.
func (s *shell) retype(line string) {
	s.b.t.Helper()
	for range 50 {
		s.write(line + "\n")
		time.Sleep(50 * time.Millisecond)
		if strings.Contains(s.text(1), line+"\r\n"+line) {
			return
		}
	}
	s.b.t.Fatalf("%q was not repeated: %q", line, s.text(1))
}

func TestJobControl(t *testing.T) {
	both(t, func(t *testing.T, b *box) {
		s := b.tty("bash", "--norc", "-i")
		s.until("$ ")
		s.write("sleep 100 & jobs\n")
		s.until("Running")
		s.write("kill %1; wait %1; echo st=$?\n")
		s.until("st=143")
		s.write("cat\n")
		s.retype("hello") // only cat repeats it
		s.write("\x1a")   // Ctrl-Z
		s.until("Stopped")
		s.write("fg\n")
		s.retype("again")
		s.write("\x03")     // Ctrl-C
		s.until("^C\r\n$ ") // the interrupt drops what was typed before
		s.write("echo rc=$?\n")
		s.until("rc=130")
		s.write("tty; exit 5\n")
		s.check(5)
		out := s.text(1)
		if !strings.Contains(out, "/dev/pts/") {
			t.Errorf("tty(1) names no terminal: %q", out)
		}
		for _, bad := range []string{"no job control", "Inappropriate ioctl", "cannot set terminal"} {
			if strings.Contains(out, bad) {
				t.Errorf("%q in %q", bad, out)
			}
		}
	})
}

func TestCtrlC(t *testing.T) {
	b := boot(t)
	s := b.tty("sh", "-c", "echo up; exec sleep 100")
	s.until("up")
	s.write("\x03")
	s.check(128 + 2)
}

func TestResize(t *testing.T) {
	both(t, func(t *testing.T, b *box) {
		s := b.tty("bash", "-c", `trap 'w=1' WINCH; while :; do echo "$(stty size) ${w:-0}"; sleep .02; done`)
		s.until("24 80 0")
		b.send(session.Msg{Type: session.MsgResize, ID: s.id, Rows: 50, Cols: 132}, nil)
		s.until("50 132 1")
		s.signal(9)
		s.wait()
	})
}

func TestTerminalSettings(t *testing.T) {
	b := boot(t)
	s := b.start(session.Command{Argv: session.Words{"sh", "-c", "stty -a; echo $TERM; stty size"}, TTY: true, Env: testEnv}).check(0)
	out := s.text(1)
	for _, want := range []string{"isig icanon", " echo ", " onlcr", " iutf8", "intr = ^C", "eof = ^D", "xterm\r\n", "24 80"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}

func TestTerminalEndOfInput(t *testing.T) {
	b := boot(t)
	for _, in := range []string{"line\n", "no newline"} {
		s := b.tty("cat")
		s.write(in)
		s.eof()
		s.check(0)
	}
}

func TestTerminalOutputIsWhole(t *testing.T) {
	b := boot(t)
	for range 20 {
		s := b.tty("seq", "20000").check(0)
		if n := strings.Count(s.text(1), "\r\n"); n != 20000 {
			t.Fatalf("%d lines of 20000", n)
		}
	}
}

func TestTerminalWithBackgroundJob(t *testing.T) {
	b := boot(t)
	begin := time.Now()
	b.tty("bash", "-c", "trap '' HUP; sleep 100 & exit 4").check(4)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestInteractiveShellEndsAtStop(t *testing.T) {
	b := boot(t)
	s := b.tty("bash", "--norc", "-i")
	s.until("$ ")
	s.write("sleep 1000\n")
	time.Sleep(100 * time.Millisecond)
	if took := b.stop(8 * time.Second); took > 3*time.Second {
		t.Errorf("stop took %v", took)
	}
	s.wait()
}

func TestTerminalNobodyReads(t *testing.T) {
	b := boot(t)
	s := b.tty("sleep", "100")
	s.write(strings.Repeat("x\n", 100_000)) // within the window, far beyond the line buffer
	s.signal(9)
	s.check(128 + 9)
}
