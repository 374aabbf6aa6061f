package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

func TestExitCodes(t *testing.T) {
	b := boot(t)
	dir := testbox.TempDir(t)
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, []byte(text), mode))
		return path
	}
	tests := []struct {
		name string
		argv []string
		cwd  string
		code int
	}{
		{"zero", []string{"true"}, "", 0},
		{"its own", []string{"sh", "-c", "exit 77"}, "", 77},
		{"255", []string{"sh", "-c", "exit 255"}, "", 255},
		{"by TERM", []string{"sh", "-c", "kill -TERM $$"}, "", 128 + 15},
		{"by KILL", []string{"sh", "-c", "kill -KILL $$"}, "", 128 + 9},
		{"by SEGV", []string{"sh", "-c", "kill -SEGV $$"}, "", 128 + 11},
		{"not found in PATH", []string{"no-such-program-here"}, "", 127},
		{"empty name", []string{""}, "", 127},
		{"not found by path", []string{"/no/such/program"}, "", 127},
		{"interpreter not there", []string{write("noint", "#!/no/such/interpreter\n", 0o755)}, "", 127},
		{"a directory", []string{"/usr"}, "", 126},
		{"not executable", []string{write("plain", "x", 0o644)}, "", 126},
		{"not executable in PATH", []string{"plain"}, "", 126},
		{"no program format", []string{write("junk", "\x01\x02\x03", 0o755)}, "", 126},
		{"below a file", []string{write("f", "", 0o755) + "/x"}, "", 126},
		{"an argument too long", []string{"echo", strings.Repeat("x", 200<<10)}, "", 126},
		{"no words", nil, "", 125},
		{"no such directory", []string{"true"}, "/no/such/dir", 125},
		{"directory is a file", []string{"true"}, "/etc/passwd", 125},
		{"relative to the directory", []string{"./ok"}, dir, 9},
		{"NUL in a word", []string{"echo", "a\x00b"}, "", 126},
	}
	write("ok", "#!/bin/sh\nexit 9\n", 0o755)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := session.Words{"PATH=/usr/bin:/bin:" + dir}
			end := b.start(session.Command{Argv: tt.argv, Cwd: session.Word(tt.cwd), Env: env}).wait()
			if end.Code != tt.code {
				t.Errorf("got %+v, want code %d", end, tt.code)
			}
			if (end.Type == session.MsgRefused) != (end.Message != "") || len(end.Message) > session.MaxMessage {
				t.Errorf("message of %d bytes: %+v", len(end.Message), end)
			}
		})
	}
}

func TestRelativePathAndDirectory(t *testing.T) {
	b := boot(t)
	dir := testbox.TempDir(t)
	must(os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "bin/tool"), []byte("#!/bin/sh\npwd\n"), 0o755))
	s := b.start(session.Command{Argv: session.Words{"tool"}, Cwd: session.Word(dir), Env: session.Words{"PATH=bin:/usr/bin:/bin"}}).check(0)
	if got := s.text(1); got != dir+"\n" {
		t.Errorf("ran in %q, want %q", got, dir)
	}
	if wd, _ := os.Getwd(); b.sh("pwd").check(0).text(1) != wd+"\n" {
		t.Error("the default is not the guest's own directory")
	}
}

func TestDirectoryBeyondPathMax(t *testing.T) {
	b := boot(t)
	root := testbox.TempDir(t)
	name, depth := strings.Repeat("d", 200), 40 // 8,000 bytes
	dir, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(err)
	for range depth {
		must(unix.Mkdirat(dir, name, 0o755))
		next, err := unix.Openat(dir, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(err)
		unix.Close(dir)
		dir = next
	}
	f, err := unix.Openat(dir, "here", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	must(err)
	unix.Close(f)
	unix.Close(dir)
	long := root + strings.Repeat("/"+name, depth)
	s := b.start(session.Command{Argv: session.Words{"ls"}, Cwd: session.Word(long), Env: testEnv}).check(0)
	if s.text(1) != "here\n" {
		t.Errorf("ls there: %q", s.text(1))
	}
	b.start(session.Command{Argv: session.Words{"ls"}, Cwd: session.Word(long + "/" + name), Env: testEnv}).check(125)
	b.start(session.Command{Argv: session.Words{"ls"}, Cwd: session.Word("/" + strings.Repeat("x", 5000)), Env: testEnv}).check(125)
}

func TestEnvironment(t *testing.T) {
	b := boot(t)
	env := session.Words{"A=1", "PATH=/usr/bin:/bin", "A=2", "B=\xff\xfe", "E="}
	s := b.start(session.Command{Argv: session.Words{"env"}, Env: env}).check(0)
	if got, want := s.text(1), "PATH=/usr/bin:/bin\nA=2\nB=\xff\xfe\nE=\n"; got != want {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestWhatACommandInherits(t *testing.T) {
	b := boot(t)
	s := b.sh(`ls -l /proc/self/fd | tail -n +2 | wc -l; grep -E '^(SigBlk|SigIgn|NoNewPrivs)' /proc/self/status; umask
		ulimit -c; cat; ps -o sid= -o pgid= -o pid= $$; cat /dev/tty; true`).check(0)
	lines := strings.Split(s.text(1), "\n")
	want := []string{
		"4", // ls has its own directory open
		"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", "NoNewPrivs:\t1", "0022", "0",
	}
	for i, w := range want {
		if i >= len(lines) || lines[i] != w {
			t.Fatalf("got %q, want %q", lines, want)
		}
	}
	if f := strings.Fields(lines[len(want)]); len(f) != 3 || f[0] != f[1] || f[1] != f[2] {
		t.Errorf("session, group, pid: %q", lines[len(want)])
	}
	if !strings.Contains(s.text(2), "/dev/tty") {
		t.Error("a command without a terminal has one")
	}
}

func TestGuestCannotBeLookedInto(t *testing.T) {
	b := boot(t)
	s := b.start(session.Command{Argv: session.Words{
		"setpriv", "--bounding-set=-all", "--inh-caps=-all", "bash", "-c",
		`head -c1 /proc/1/environ && exit 1; readlink /proc/1/fd/3 && exit 2; head -c1 /proc/1/mem && exit 3; exit 0`,
	}, Env: testEnv})
	s.check(0)
}

func TestGuestSurvivesSignals(t *testing.T) {
	b := boot(t)
	b.sh(`for s in HUP INT QUIT ILL ABRT BUS FPE USR1 SEGV USR2 PIPE ALRM TERM XCPU SYS TSTP STOP KILL; do kill -$s 1; done; true`).wait()
	b.sh("exit 5").check(5)
}

func TestStdin(t *testing.T) {
	b := boot(t)
	s := b.start(session.Command{Argv: session.Words{"sha256sum"}, Stdin: true, Env: testEnv})
	text := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB: eight windows
	s.write(text)
	s.eof()
	if got := s.check(0).text(1); !strings.HasPrefix(got, sha(text)) {
		t.Errorf("sum %q, want %s", got, sha(text))
	}
	if s := b.sh("cat; echo $?").check(0); s.text(1) != "0\n" {
		t.Errorf("without stdin: %q", s.text(1))
	}
	empty := b.start(session.Command{Argv: session.Words{"cat"}, Stdin: true, Env: testEnv})
	empty.eof()
	empty.check(0)
}

func TestStdinThatNobodyReads(t *testing.T) {
	b := boot(t)
	s := b.start(session.Command{Argv: session.Words{"bash", "-c", "exec <&-; echo closed; sleep 0.3; exit 4"}, Stdin: true, Env: testEnv})
	s.until("closed")
	s.write(strings.Repeat("x", 1<<20)) // would wait for ever if the guest held its credit back
	s.check(4)

	s = b.start(session.Command{Argv: session.Words{"sleep", "100"}, Stdin: true, Env: testEnv})
	s.write(strings.Repeat("x", session.Window))
	s.signal(syscall.SIGINT) // is not stuck behind the input
	s.check(128 + 2)
}

func TestTwentyAtOnce(t *testing.T) {
	b := boot(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s := b.sh(fmt.Sprintf("seq %d; seq %d >&2; exit %d", 1000+i, 500+i, i))
			if end := s.wait(); end.Code != i {
				t.Errorf("command %d: %+v", i, end)
			}
			if n := strings.Count(s.text(1), "\n"); n != 1000+i {
				t.Errorf("command %d: %d lines", i, n)
			}
			if n := strings.Count(s.text(2), "\n"); n != 500+i {
				t.Errorf("command %d: %d lines of stderr", i, n)
			}
		})
	}
	wg.Wait()
}

func TestSignalsReachTheGroup(t *testing.T) {
	b := boot(t)
	s := b.sh(`trap "wait; exit 8" USR1; sh -c 'trap "echo inner; exit" USR1; echo up; while :; do sleep 0.01; done' & wait`)
	s.until("up")
	s.signal(syscall.SIGUSR1)
	s.check(8)
	if !strings.Contains(s.text(1), "inner") {
		t.Errorf("the child got no signal: %q", s.text(1))
	}
	s = b.sh("exec sleep 100")
	s.signal(syscall.SIGTERM) // perhaps before it was started
	s.check(128 + 15)
}

func TestCommandsSignalEachOther(t *testing.T) {
	b := boot(t)
	s := b.sh("echo $$; exec sleep 100")
	s.until("\n")
	b.sh("kill -TERM " + s.text(1)).check(0)
	s.check(128 + 15)
}

func TestLandlockIsLaid(t *testing.T) {
	testbox.Need(t, "landlock")
	b := boot(t)
	if len(b.ready.Missing) > 0 {
		t.Skipf("this kernel lacks %v", b.ready.Missing)
	}
	// Root in its namespaces here, so only Landlock stands against a mount.
	s := b.sh("mount -t tmpfs none /mnt").check(32)
	if !strings.Contains(s.text(2), "denied") && !strings.Contains(s.text(2), "permitted") {
		t.Errorf("mount said %q", s.text(2))
	}
	b.sh("kill -0 1").check(1) // signals are scoped
}
