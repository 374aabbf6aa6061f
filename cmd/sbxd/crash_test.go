package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/api"
)

// ends are the processes of a session that are killed, together with the daemon or
// alone. The first is no more than a restart of the daemon.
var ends = []struct {
	victims []string
	lives   bool // the session goes on
}{
	{[]string{"daemon"}, true},
	{[]string{"shim"}, false},
	{[]string{"bwrap"}, false},
	{[]string{"guest"}, false},
	{[]string{"shim", "bwrap"}, false},
	{[]string{"daemon", "guest", "bwrap", "shim"}, false},
}

// killed kills processes of a session by name, all before any is looked after.
func (b *box) killed(t *testing.T, s api.Session, victims []string) {
	t.Helper()
	for _, v := range victims {
		pid := s.Pids[v]
		if v == "daemon" {
			pid = b.daemon.Process.Pid
		}
		if pid <= 1 {
			t.Fatalf("the %s of %+v", v, s.Pids)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && len(victims) == 1 {
			t.Fatal(err) // of several, one may end with another
		}
	}
	if slices.Contains(victims, "daemon") {
		_ = b.end(syscall.SIGKILL)
		b.again(t)
	}
}

// TestKilledAtRest kills each process of a session that does nothing. Its files stay,
// nothing else does, it says why it is stopped, and it starts again.
func TestKilledAtRest(t *testing.T) {
	b := served(t)
	before := b.used(t)
	for _, end := range ends {
		t.Run(strings.Join(end.victims, " "), func(t *testing.T) {
			id := b.run(t, 0, "start", "--project", b.project)
			b.run(t, 0, "exec", id, "--", "sh", "-c", "echo early >early; mkdir d; echo home >~/.note")
			live := b.status(t, id)
			b.killed(t, live, end.victims)
			b.endedAs(t, live, end.lives)
			b.usable(t, id)
			if got := b.run(t, 0, "exec", id, "--", "sh", "-c", "cat early ~/.note; ls -d d"); got != "early\nhome\nd" {
				t.Errorf("after the start: %q", got)
			}
			b.run(t, 0, "rm", "--discard", id)
			b.noTrace(t, before)
		})
	}
}

// endedAs checks what is left of a session whose processes were killed.
func (b *box) endedAs(t *testing.T, live api.Session, lives bool) {
	t.Helper()
	if lives {
		if now := b.status(t, live.ID); now.State != "running" || now.Pids["shim"] != live.Pids["shim"] {
			t.Errorf("the session is %s (%s) with processes %v, want %v", now.State, now.Reason, now.Pids, live.Pids)
		}
		return
	}
	var now api.Session
	eventually(t, "the session is stopped", func() bool { now = b.status(t, live.ID); return now.State == "stopped" })
	if now.Reason == "" {
		t.Error("it does not say why")
	}
	b.run(t, api.ExitRefused, "exec", live.ID, "--", "true")
	b.run(t, 0, "sweep")
	eventually(t, "no process of it is left", func() bool { return len(b.processes(t)) == 0 })
	if _, err := os.Lstat(filepath.Join(b.dir, "state/run/s", live.ID+".sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket: %v", err)
	}
}

// usable starts a session again unless it runs.
func (b *box) usable(t *testing.T, id string) {
	t.Helper()
	if b.status(t, id).State != "running" {
		b.run(t, 0, "resume", id)
	}
}

// ticks prints numbered lines for a second, writes them to a file as well, and ends with
// a code of its own.
const ticks = `i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo "line $i"; echo "line $i" >>written; sleep 0.02; done; exit 7`

func lines(n int) string {
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	return want.String()
}

// running is a command under a client.
type running struct {
	cmd    *exec.Cmd
	out    *os.File
	stderr bytes.Buffer
	ended  chan struct{}
}

// follow starts the command line and returns when the command has written something.
func (b *box) follow(t *testing.T, args ...string) *running {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	must(t, err)
	r := &running{cmd: b.cmd(args...), out: out, ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = out, &r.stderr
	must(t, r.cmd.Start())
	go func() { defer close(r.ended); _ = r.cmd.Wait() }()
	eventually(t, "output comes", func() bool { return strings.Count(r.read(t), "\n") > 5 })
	return r
}

func (r *running) read(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(r.out.Name())
	must(t, err)
	return string(b)
}

// code waits for the client's end.
func (r *running) code(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		_ = r.cmd.Process.Kill()
		t.Fatalf("the client does not end; it has said %q and %q", r.read(t), r.stderr.String())
	}
	return r.cmd.ProcessState.ExitCode()
}

// TestKilledUnderACommand kills each process of a session while a command runs. A restart
// of the daemon is not noticed by it, nor by its client. In any other case the client
// ends, what it was shown is in the log, and what the command wrote is in the view.
func TestKilledUnderACommand(t *testing.T) {
	b := served(t)
	before := b.used(t)
	for _, end := range ends {
		t.Run(strings.Join(end.victims, " "), func(t *testing.T) {
			id := b.run(t, 0, "start", "--project", b.project)
			live := b.status(t, id)
			r := b.follow(t, "exec", id, "--", "sh", "-c", ticks)
			b.killed(t, live, end.victims)
			code, out := r.code(t), r.read(t)
			switch {
			case end.lives && (code != 7 || out != lines(50) || r.stderr.Len() > 0):
				t.Errorf("the client ended with %d, said %q and showed %q", code, r.stderr.String(), out)
			case !end.lives && (code != api.ExitExec && code != 128+9 || !strings.HasPrefix(lines(50), out)):
				t.Errorf("the client ended with %d, said %q and showed %q", code, r.stderr.String(), out)
			}
			b.endedAs(t, live, end.lives)
			b.inTheLog(t, id, out, end.lives)
			b.usable(t, id)
			b.inTheLog(t, id, out, end.lives)
			wrote := b.run(t, 0, "exec", id, "--", "cat", "written") + "\n"
			if n := strings.Count(wrote, "\n"); wrote != lines(n) || n < strings.Count(out, "\n")-1 {
				t.Errorf("the view has %q, the client was shown %q", wrote, out)
			}
			b.run(t, 0, "rm", "--discard", id)
			b.noTrace(t, before)
		})
	}
}

// inTheLog checks that the first command's output is kept, and its end.
func (b *box) inTheLog(t *testing.T, id, shown string, whole bool) {
	t.Helper()
	client := api.New(filepath.Join(b.dir, "run", "sbxd.sock"))
	defer client.Close()
	all, err := client.Commands(t.Context(), id)
	must(t, err)
	c := all[0]
	if c.Running || whole && c.Code != 7 || !whole && (c.Code == 0 || c.Message == "") {
		t.Errorf("the log says of the command: %+v", c)
	}
	r, err := client.Log(t.Context(), id, c.Exec, 0, false)
	must(t, err)
	defer r.Close()
	kept, err := io.ReadAll(r)
	must(t, err)
	if !strings.HasPrefix(string(kept), shown) || !strings.HasPrefix(lines(50), string(kept)) || whole && string(kept) != lines(50) {
		t.Errorf("the log keeps %q, the client was shown %q", kept, shown)
	}
}

// TestTheDaemonIsKilledUnderAStream kills the daemon again and again while a command
// copies its input, which comes in pieces: every byte arrives, once.
func TestTheDaemonIsKilledUnderAStream(t *testing.T) {
	b := served(t)
	id := b.run(t, 0, "start", "--project", b.project)
	in := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(in)
	r, w, err := os.Pipe()
	must(t, err)
	cmd := b.cmd("exec", id, "--", "sh", "-c", "cat; exit 5")
	cmd.Stdin = r
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	must(t, cmd.Start())
	_ = r.Close()
	go func() {
		defer w.Close()
		for piece := range slices.Chunk(in, 64<<10) {
			if _, err := w.Write(piece); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	for range 3 {
		time.Sleep(100 * time.Millisecond)
		b.killDaemon(t)
		b.again(t)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 || !bytes.Equal(out.Bytes(), in) || stderr.Len() > 0 {
		t.Errorf("code %d, %d bytes of %d came back, said %q", code, out.Len(), len(in), stderr.String())
	}
}
