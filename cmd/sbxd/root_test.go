package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// refusedServe starts a daemon that has to end with code, and one clear line that
// names what.
func (b *box) refusedServe(t *testing.T, code int, what string, env ...string) {
	t.Helper()
	cmd := b.cmd(append([]string{"serve"}, b.runAs...)...)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	var said []string
	for l := range strings.Lines(string(out)) {
		if strings.HasPrefix(l, "sbxd: ") {
			said = append(said, l)
		}
	}
	if got := cmd.ProcessState.ExitCode(); got != code || len(said) != 1 || !strings.Contains(said[0], what) {
		t.Errorf("%v: code %d, want %d and a line with %q; said:\n%s", env, got, code, what, out)
	}
}

// TestAStateRootIsNotShared: not with a daemon that lives, neither by the root nor by the
// socket; but what a dead one held is free.
func TestAStateRootIsNotShared(t *testing.T) {
	b := served(t)
	id := b.run(t, 0, "start", "--project", b.project)
	other := testbox.TempDir(t)
	if os.Geteuid() == 0 {
		must(t, os.Chown(other, 0, 0))
	}
	b.refusedServe(t, api.ExitBusy, fmt.Sprintf("process %d holds its lock", b.daemon.Process.Pid), "SBXD_SOCKET="+other+"/s.sock")
	b.refusedServe(t, api.ExitBusy, "a daemon answers on it", "SBXD_STATE="+other+"/state")
	b.run(t, 0, "exec", id, "--", "true")
	b.killDaemon(t)
	// Many want what it held: one gets it, each other says why not.
	var cmds []*exec.Cmd
	for range 5 {
		cmd := b.cmd(append([]string{"serve"}, b.runAs...)...)
		cmd.Dir = "/"
		must(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	ended := make(chan *exec.Cmd)
	for _, cmd := range cmds {
		go func() { _ = cmd.Wait(); ended <- cmd }()
	}
	for range 4 {
		if cmd := <-ended; cmd.ProcessState.ExitCode() != api.ExitBusy {
			t.Errorf("one of five ended with %d", cmd.ProcessState.ExitCode())
		}
	}
	eventually(t, "one of them serves", func() bool { return b.cmd("list").Run() == nil })
	b.run(t, 0, "exec", id, "--", "true")
	for _, cmd := range cmds {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	if cmd := <-ended; cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the one that served ended with %d", cmd.ProcessState.ExitCode())
	}
	b.again(t)
}

// TestAStateRootThatIsNotOurs: each is refused and left as it is.
func TestAStateRootThatIsNotOurs(t *testing.T) {
	testbox.Need(t, needSession...)
	uid, gid := testbox.AsUser(t)
	b, err := newBox(testbox.TempDir(t), uid, gid)
	must(t, err)
	dir := b.dir
	must(t, os.Mkdir(dir+"/real", 0o700))
	must(t, os.Symlink("real", dir+"/link"))
	must(t, os.Mkdir(dir+"/wide", 0o700))
	must(t, os.Chmod(dir+"/wide", 0o777))
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	theirs := "/usr"
	if os.Geteuid() == 0 {
		theirs = dir + "/theirs"
		must(t, os.Mkdir(theirs, 0o700))
		must(t, os.Chown(theirs, uid, gid))
	}
	for state, what := range map[string]string{
		dir + "/link":        "a link lies on its path",
		dir + "/link/below":  "a link lies on its path",
		dir + "/wide":        "its mode is 0777",
		theirs:               "it belongs to uid",
		dir + "/file":        "",
		dir + "/file/below":  "",
		dir + "/real/../../": "",
		"relative":           "",
		"/":                  "",
	} {
		cmd := b.cmd(append([]string{"serve"}, b.runAs...)...)
		cmd.Env = append(cmd.Env, "SBXD_STATE="+state)
		out, _ := cmd.CombinedOutput()
		text := string(out)
		switch code := cmd.ProcessState.ExitCode(); {
		case what != "" && code != api.ExitDenied, code <= 0 || code == api.ExitNoDaemon:
			t.Errorf("%s: code %d\n%s", state, code, text)
		case !strings.Contains(text, what) || !strings.Contains(text, "sbxd: "):
			t.Errorf("%s: want %q in\n%s", state, what, text)
		}
	}
	for _, d := range []string{"/real", "/wide"} {
		if left, err := os.ReadDir(dir + d); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", d, left, err)
		}
	}
}

// edit changes a session's record behind the back of a dead daemon.
func edit(t *testing.T, s api.Session, change func(*session.Record)) {
	t.Helper()
	b, err := os.ReadFile(s.File)
	must(t, err)
	var r session.Record
	must(t, json.Unmarshal(b, &r))
	change(&r)
	b, err = json.Marshal(r)
	must(t, err)
	must(t, os.WriteFile(s.File, b, 0o600))
}

// TestAfterARestartOfTheHost: the record names another boot, and its processes are gone.
func TestAfterARestartOfTheHost(t *testing.T) {
	b := served(t)
	before := b.used(t)
	id := b.run(t, 0, "start", "--project", b.project)
	b.run(t, 0, "exec", id, "--", "sh", "-c", "echo work >work")
	live := b.status(t, id)
	b.killDaemon(t)
	for _, v := range []string{"guest", "bwrap", "shim"} {
		_ = syscall.Kill(live.Pids[v], syscall.SIGKILL)
	}
	eventually(t, "they are gone", func() bool { return len(b.processes(t)) == 0 })
	edit(t, live, func(r *session.Record) {
		r.Boot = "00000000-0000-4000-8000-000000000000"
		for _, p := range []*proc.ID{&r.Running.Shim, &r.Running.Bwrap, &r.Running.Guest} {
			p.Boot = r.Boot
			p.Pid = os.Getpid() // whoever has the number now
		}
	})
	b.again(t)
	if s := b.status(t, id); s.State != "stopped" || !strings.Contains(s.Reason, "started again") || s.Unlanded == nil || *s.Unlanded != 1 {
		t.Errorf("it is %+v", s)
	}
	b.run(t, 0, "resume", id)
	if got := b.run(t, 0, "exec", id, "--", "cat", "work"); got != "work" {
		t.Errorf("its work: %q", got)
	}
	b.run(t, 0, "rm", "--discard", id)
	b.noTrace(t, before)
}

// TestAStrangersNumber: after a crash the record's numbers are those of a stranger, who
// is never signalled. What really is the session's goes all the same.
func TestAStrangersNumber(t *testing.T) {
	b := served(t)
	before := b.used(t)
	stranger := exec.Command("sleep", "600")
	if os.Geteuid() == 0 { // whom the session's own user could signal as well
		stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}}
	}
	must(t, stranger.Start())
	him, err := proc.Of(stranger.Process.Pid)
	must(t, err)
	time.Sleep(25 * time.Millisecond) // more than the tick in which start times are told
	defer func() {
		if him.Alive() != proc.Alive {
			t.Error("the stranger was killed")
		}
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	before = append(before, "process sleep 600")
	for _, alive := range []bool{false, true} {
		id := b.run(t, 0, "start", "--project", b.project)
		live := b.status(t, id)
		b.killDaemon(t)
		if !alive {
			must(t, syscall.Kill(live.Pids["shim"], syscall.SIGKILL))
		}
		edit(t, live, func(r *session.Record) {
			for _, p := range []*proc.ID{&r.Running.Shim, &r.Running.Bwrap, &r.Running.Guest} {
				p.Pid, p.Start = him.Pid, him.Start-1
			}
		})
		b.again(t)
		b.run(t, 0, "sweep")
		if s := b.status(t, id); s.State != "stopped" {
			t.Errorf("it is %s (%s)", s.State, s.Reason)
		}
		b.run(t, 0, "stop", id)
		b.run(t, 0, "resume", id)
		b.run(t, 0, "exec", id, "--", "true")
		b.run(t, 0, "rm", id)
		b.noTrace(t, before)
	}
}

// TestRoundsLeaveNoResidue: what many sessions leave is nothing: no file, no process, no
// zombie, no descriptor of the daemon's. After a sweep not even what they shared.
func TestRoundsLeaveNoResidue(t *testing.T) {
	b := served(t)
	before := b.used(t)
	daemon := b.daemon.Process.Pid
	fds := func() int {
		names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", daemon))
		must(t, err)
		return len(names)
	}
	temporary, had := filepath.Join(os.TempDir(), "sbxd-*"), fds()
	old, _ := filepath.Glob(temporary)
	const rounds = 30
	for i := range rounds {
		id := b.run(t, 0, "start", "--project", b.project)
		b.run(t, 0, "exec", id, "--", "sh", "-c", "echo x >x; echo y >~/y")
		if i%5 == 4 {
			s := b.status(t, id)
			must(t, syscall.Kill(s.Pids["shim"], syscall.SIGKILL))
			eventually(t, "it is stopped", func() bool { return b.status(t, id).State == "stopped" })
		} else {
			b.run(t, 0, "stop", id)
		}
		b.run(t, 0, "rm", "--discard", id)
	}
	b.noTrace(t, before)
	if now := fds(); now > had+5 {
		t.Errorf("the daemon has %d descriptors, %d before", now, had)
	}
	for _, pid := range children(t)[daemon] {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(stat), ") Z ") {
			t.Errorf("a zombie: %s", stat)
		}
	}
	if now, _ := filepath.Glob(temporary); len(now) > len(old) {
		t.Errorf("in the temporary directory: %q", now)
	}
	b.run(t, 0, "sweep")
	sets, err := filepath.Glob(filepath.Join(b.dir, "state", "*", "pins", "*"))
	if more, _ := filepath.Glob(filepath.Join(b.dir, "state", "pins", "*")); err != nil || len(sets)+len(more) > 0 {
		t.Errorf("after the sweep: %q %q, %v", sets, more, err)
	}
}
