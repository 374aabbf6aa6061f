package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// The client of a running command notices nothing of a daemon that is killed and
// started again: no byte of output or input is lost or comes twice.
func TestDaemonDiesUnderACommand(t *testing.T) {
	for name, end := range map[string]func(*box){"killed": (*box).kill, "told to end": (*box).term} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.start()
			s := b.session()
			in, feed := io.Pipe()
			var out bytes.Buffer
			started := make(chan string, 2)
			type result struct {
				exit api.Exit
				err  error
			}
			done := make(chan result, 1)
			client := b.Client
			go func() {
				exit, err := client.Exec(t.Context(), s.ID, api.ExecRequest{
					Argv: []string{"sh", "-c", "while read l; do echo got $l; done; exit 5"}, Stdin: true,
				}, api.Streams{Stdin: in, Stdout: &out, Started: func(id string, _ int) { started <- id }})
				in.Close() // nobody reads: a line that is sent all the same must not wait
				done <- result{exit, err}
			}()
			<-started
			var want strings.Builder
			line := func(i int) {
				fmt.Fprintf(feed, "line %d\n", i)
				fmt.Fprintf(&want, "got line %d\n", i)
			}
			line(0)
			for round := range 3 {
				end(b)
				line(3*round + 1) // while nobody is there
				b.start()
				line(3*round + 2)
				time.Sleep(20 * time.Millisecond)
				line(3*round + 3)
			}
			feed.Close()
			r := <-done
			if r.err != nil || r.exit.Code != 5 || out.String() != want.String() {
				t.Errorf("exit %+v, %v; output\n%s\nwant\n%s", r.exit, r.err, out.String(), want.String())
			}
			if len(started) != 0 {
				t.Error("Started was called again")
			}
			if st, err := b.Session(t.Context(), s.ID); err != nil || st.Pids["shim"] != s.Pids["shim"] {
				t.Errorf("the session's shim changed: %+v, %v", st, err)
			}
		})
	}
}

func TestOutputBeforeAndAfterARestart(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	exit, err := b.Exec(t.Context(), s.ID, api.ExecRequest{Argv: []string{"sh", "-c", "echo one; echo two >&2; exit 3"}, Detach: true}, api.Streams{})
	must(t, err)
	b.kill()
	b.start()
	eventually(t, "the command ends", func() bool {
		l, err := b.Commands(t.Context(), s.ID)
		return err == nil && len(l) == 1 && !l[0].Running && l[0].Code == 3 && l[0].Output == 8
	})
	var out, errs bytes.Buffer
	again, err := b.Exec(t.Context(), s.ID, api.ExecRequest{Attach: exit.Exec}, api.Streams{Stdout: &out, Stderr: &errs})
	if err != nil || again.Code != 3 || out.String() != "one\n" || errs.String() != "two\n" {
		t.Errorf("attach: %+v, %v, %q, %q", again, err, out.String(), errs.String())
	}
	for from, want := range map[int64]int{0: 8, 3: 5, 8: 0, 100: 0} {
		log, err := b.Log(t.Context(), s.ID, exit.Exec, from, false)
		must(t, err)
		text, err := io.ReadAll(log)
		log.Close()
		if err != nil || len(text) != want {
			t.Errorf("log from %d: %q, %v", from, text, err)
		}
	}
	_, err = b.Log(t.Context(), s.ID, "99", 0, false)
	wantCode(t, "the log of no command", err, api.ExitNotFound)
}

func TestShimThatDiesIsNoticed(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	events := make(chan api.StateEvent, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listening := make(chan bool)
	go func() {
		close(listening)
		_ = b.Events(ctx, func(e api.StateEvent) error { events <- e; return nil })
	}()
	<-listening
	time.Sleep(50 * time.Millisecond) // the stream stands
	must(t, unix.Kill(s.Pids["shim"], unix.SIGKILL))
	select {
	case e := <-events:
		if e.Session != s.ID || e.State != "stopped" || e.Reason == "" {
			t.Errorf("event %+v", e)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("nobody noticed")
	}
	got, err := b.Resume(t.Context(), s.ID)
	if err != nil || got.State != "running" || got.Reason != "" {
		t.Errorf("resume: %+v, %v", got, err)
	}
	// And while no daemon was there.
	b.kill()
	must(t, unix.Kill(got.Pids["shim"], unix.SIGKILL))
	b.start()
	got, err = b.Session(t.Context(), s.ID)
	if err != nil || got.State != "stopped" || !strings.Contains(got.Reason, "shim ended") {
		t.Errorf("after the restart: %+v, %v", got, err)
	}
}

// edit changes the record of a session while no daemon runs.
func (b *box) edit(file string, f func(string) string) {
	b.t.Helper()
	text, err := os.ReadFile(file)
	must(b.t, err)
	must(b.t, os.WriteFile(file, []byte(f(string(text))), 0o600))
}

func TestAnotherBootStopsASession(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	must(t, unix.Kill(s.Pids["shim"], unix.SIGSTOP)) // it cannot answer, as after a boot
	b.kill()
	boot, err := proc.Boot()
	must(t, err)
	b.edit(s.File, func(text string) string { return strings.ReplaceAll(text, boot, strings.Repeat("0", len(boot))) })
	must(t, os.Remove(filepath.Join(b.opt.RuntimeDir, "s", s.ID+".sock")))
	b.start()
	got, err := b.Session(t.Context(), s.ID)
	if err != nil || got.State != "stopped" || !strings.Contains(got.Reason, "started again") {
		t.Errorf("%+v, %v", got, err)
	}
	must(t, unix.Kill(s.Pids["shim"], unix.SIGKILL)) // nobody else may: it is not provably the session's
}

// aTick is more than the kernel's clock tick, in which start times are told (proc(5)).
const aTick = 25 * time.Millisecond

// A stranger that has a shim's number is never signalled (process ids are used again).
func TestStrangerWithTheNumberLives(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	b.kill()
	time.Sleep(aTick) // a number is not used again within the tick that it was given in
	stranger := exec.Command("sleep", "1000")
	must(t, stranger.Start())
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	must(t, unix.Kill(s.Pids["shim"], unix.SIGKILL))
	pid := regexp.MustCompile(`"pid": *[0-9]+`)
	b.edit(s.File, func(text string) string {
		return pid.ReplaceAllString(text, fmt.Sprintf(`"pid": %d`, stranger.Process.Pid))
	})
	b.start()
	if got, err := b.Session(t.Context(), s.ID); err != nil || got.State != "stopped" {
		t.Errorf("%+v, %v", got, err)
	}
	must(t, b.Remove(t.Context(), s.ID, api.RemoveRequest{Discard: true}))
	if gone(stranger.Process.Pid) {
		t.Error("the stranger was killed")
	}
}

func TestTornRecordOfALiveSession(t *testing.T) {
	b := newBox(t)
	b.start()
	good := b.session()
	torn := b.session()
	b.kill()
	b.edit(torn.File, func(string) string { return "{" })
	b.start()
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("List: %+v, %v", list, err)
	}
	if out, code := b.sh(good.ID, "echo fine"); code != 0 || out != "fine\n" {
		t.Errorf("the other one: %q, %d", out, code)
	}
	got, err := b.Session(t.Context(), torn.ID)
	if err != nil || got.State != "broken" || !strings.Contains(got.Reason, "cannot be read") {
		t.Errorf("the torn one: %+v, %v", got, err)
	}
	if gone(torn.Pids["shim"]) {
		t.Error("its processes were touched")
	}
	_, err = b.Exec(t.Context(), torn.ID, api.ExecRequest{Argv: []string{"true"}}, api.Streams{})
	wantCode(t, "exec", err, api.ExitRefused)
	_, err = b.Resume(t.Context(), torn.ID)
	wantCode(t, "resume", err, api.ExitRefused)
	wantCode(t, "rm", b.Remove(t.Context(), torn.ID, api.RemoveRequest{}), api.ExitGate)
	must(t, b.Remove(t.Context(), torn.ID, api.RemoveRequest{Discard: true}))
	eventually(t, "its shim ends", func() bool { return gone(torn.Pids["shim"]) })
	must(t, b.Remove(t.Context(), good.ID, api.RemoveRequest{}))
	b.nothingLeft()
}

// A daemon that is killed in the middle of a start or a removal leaves what the next
// one finishes.
func TestInterruptedStartAndRemoval(t *testing.T) {
	b := newBox(t)
	b.start()
	first, resumed, removed := b.session(), b.session(), b.session()
	b.kill()
	creating := func(text string) string { return strings.Replace(text, `"state": "running"`, `"state": "creating"`, 1) }
	b.edit(resumed.File, creating)
	started := regexp.MustCompile(`(?m)^  "started": .*\n`)
	b.edit(first.File, func(text string) string { return started.ReplaceAllString(creating(text), "") })
	dir := filepath.Dir(removed.File)
	must(t, os.Rename(dir, filepath.Join(filepath.Dir(dir), "old-"+removed.ID)))
	must(t, unix.Kill(removed.Pids["shim"], unix.SIGKILL))
	must(t, os.Remove(filepath.Join(b.opt.RuntimeDir, "s", removed.ID+".sock")))
	b.start()
	list, err := b.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != resumed.ID || list[0].State != string(session.Stopped) {
		t.Errorf("List: %+v, %v", list, err)
	}
	for _, s := range []api.Session{first, resumed} {
		eventually(t, "the shim of "+s.ID+" ends", func() bool { return gone(s.Pids["shim"]) })
	}
	must(t, b.Remove(t.Context(), resumed.ID, api.RemoveRequest{}))
	b.nothingLeft()
}

func TestProjectWasReplaced(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	_, err := b.Stop(t.Context(), s.ID)
	must(t, err)
	must(t, os.Rename(b.project, b.project+".old"))
	must(t, os.Mkdir(b.project, 0o755))
	_, err = b.Resume(t.Context(), s.ID)
	wantCode(t, "resume", err, api.ExitRefused)
	if got, err := b.Session(t.Context(), s.ID); err != nil || got.State != "stopped" {
		t.Errorf("%+v, %v", got, err)
	}
}

// gone reports whether no process has the number; a zombie is none.
func gone(pid int) bool {
	_, err := proc.Of(pid)
	return errors.Is(err, proc.ErrGone)
}
