package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// screen is a terminal with a program on it.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	ptmx *os.File
	tty  *os.File // kept open, so that settings can be read after the program's end

	before unix.Termios // the settings that the program found

	mu   sync.Mutex // guards the fields below
	seen bytes.Buffer
}

func onScreen(t *testing.T, cmd *exec.Cmd, rows, cols uint16) *screen {
	t.Helper()
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, cmd: cmd, ptmx: ptmx, tty: tty}
	t.Cleanup(func() { tty.Close(); ptmx.Close() })
	s.resize(rows, cols)
	s.before = s.settings()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(s, ptmx) }()
	return s
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.Write(b)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

func (s *screen) resize(rows, cols uint16) {
	if err := pty.Setsize(s.ptmx, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) keys(k string) {
	if _, err := s.ptmx.WriteString(k); err != nil {
		s.t.Fatal(err)
	}
}

// wait returns when re was seen, and fails the test after ten seconds.
func (s *screen) wait(re string) {
	s.t.Helper()
	want := regexp.MustCompile(re)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if want.MatchString(s.text()) {
			return
		}
	}
	_ = s.cmd.Process.Kill()
	s.t.Fatalf("%s was not seen in\n%s", re, s.text())
}

// exit waits for the program and returns its exit code.
func (s *screen) exit() int {
	s.t.Helper()
	timer := time.AfterFunc(15*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

func (s *screen) settings() unix.Termios {
	st, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *st
}

func TestTerminal(t *testing.T) {
	b := served(t)
	id := b.run(t, 0, "start", "--project", b.project)
	inside := func(command ...string) *exec.Cmd {
		return b.cmd(append([]string{"exec", "-t", id, "--"}, command...)...)
	}

	t.Run("job control and Ctrl-C as on the host", func(t *testing.T) {
		testbox.Need(t, "bash")
		s := onScreen(t, inside("bash", "--norc", "-i"), 24, 80)
		s.keys("tty; sleep 100 & jobs; kill %1\r")
		s.wait(`/dev/(pts|console)`)
		s.wait(`\[1\].*Running`)
		s.keys("sleep 100\r")
		time.Sleep(300 * time.Millisecond)
		s.keys("\x03echo after=$?\r")
		s.wait(`after=130`)
		s.keys("sleep 100\r")
		time.Sleep(300 * time.Millisecond)
		s.keys("\x1a")
		s.wait(`Stopped`)
		s.keys("fg; echo back=$?\r")
		time.Sleep(300 * time.Millisecond)
		s.keys("\x03exit 6\r")
		if got := s.exit(); got != 6 {
			t.Errorf("exit code = %d, want 6\n%s", got, s.text())
		}
		if bad := regexp.MustCompile(`no job control|Inappropriate ioctl`).FindString(s.text()); bad != "" {
			t.Errorf("the shell says %q", bad)
		}
	})

	t.Run("the size and its changes arrive", func(t *testing.T) {
		s := onScreen(t, inside("sh", "-c", `trap 'stty size' WINCH; stty size; i=0; while [ $i -lt 50 ]; do sleep .1; i=$((i+1)); done`), 24, 80)
		s.wait(`24 80`)
		s.resize(50, 132)
		s.wait(`50 132`)
		s.keys("\x03")
		s.exit()
	})

	t.Run("another terminal brings its own size", func(t *testing.T) {
		x := b.run(t, 0, "exec", "-t", "--detach", id, "--", "sh", "-c",
			`trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep .1; done`)
		s := onScreen(t, b.cmd("exec", "-t", "--attach", x, id), 33, 99)
		s.wait(`33 99`)
		if got := s.exit(); got != 7 {
			t.Errorf("exit code = %d, want 7\n%s", got, s.text())
		}
	})

	t.Run("settings come back", func(t *testing.T) {
		for name, end := range map[string]func(*screen){
			"the command ends":     func(s *screen) { s.keys("x") },
			"a signal ends it":     func(s *screen) { _ = s.cmd.Process.Signal(syscall.SIGTERM) },
			"a hangup":             func(s *screen) { _ = s.cmd.Process.Signal(syscall.SIGHUP) },
			"the session is ended": func(*screen) { b.run(t, 0, "stop", id); b.run(t, 0, "resume", id) },
		} {
			t.Run(name, func(t *testing.T) {
				cmd := inside("sh", "-c", "stty -echo -icanon; echo ready; head -c 1 >/dev/null")
				s := onScreen(t, cmd, 24, 80)
				s.wait("ready")
				if s.settings() == s.before {
					t.Error("the terminal is not raw while the command has it")
				}
				end(s)
				s.exit()
				if s.settings() != s.before {
					t.Error("the terminal did not get its settings back")
				}
			})
		}
	})

	t.Run("without -t the terminal is left alone", func(t *testing.T) {
		s := b.shell(t, `b=$(stty -g)
sbxd exec `+id+` -- sh -c 'stty raw -echo </dev/tty; cat; test -t 0 || echo pipe' </dev/null
read -t 5 x; echo "read=$x"
[ "$b" = "$(stty -g)" ] && echo same
[ "$(ps -o tpgid= -p $$)" -eq "$(ps -o pgid= -p $$)" ] && echo front`)
		s.wait("pipe")
		s.keys("ok\r")
		s.wait("read=ok")
		s.wait("same")
		s.wait("front")
		s.exit()
	})

	t.Run("a landing asks", func(t *testing.T) {
		b.run(t, 0, "exec", id, "--", "touch", "asked")
		for _, try := range []struct {
			keys string
			want int
		}{{"n\r", 5}, {"\r", 5}, {"\x03", 5}, {"y\r", 0}} {
			s := onScreen(t, b.cmd("land", id), 24, 80)
			s.wait(`A  asked`)
			s.wait(`Land this\? \[y/N\] `)
			s.keys(try.keys)
			if got := s.exit(); got != try.want {
				t.Errorf("answered %q: exit code %d, want %d\n%s", try.keys, got, try.want, s.text())
			}
			_, err := os.Stat(filepath.Join(b.project, "asked"))
			if landed := err == nil; landed != (try.want == 0) {
				t.Errorf("answered %q: landed = %v", try.keys, landed)
			}
		}
	})

	t.Run("in the background of a shell it is not stopped", func(t *testing.T) {
		s := b.shell(t, `set -m
sbxd exec `+id+` -- cat &
wait $!; echo "background=$?"`)
		s.wait("background=0")
		s.exit()
	})
}

// shell runs a script of bash on a terminal of its own.
func (b *box) shell(t *testing.T, script string) *screen {
	testbox.Need(t, "bash")
	cmd := exec.Command("bash", "--norc", "-c", script)
	cmd.Env, cmd.Dir = b.env, b.project
	return onScreen(t, cmd, 24, 80)
}
