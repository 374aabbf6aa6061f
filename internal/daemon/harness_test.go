package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/testbox"
)

// box is a daemon with a state root, a HOME and a project of its own.
type box struct {
	t       *testing.T
	opt     Options
	home    string
	project string
	cmd     *exec.Cmd
	stderr  *bytes.Buffer
	*api.Client
}

// newBox makes a box whose daemon does not run yet. Its sessions run as AsUser's uid.
func newBox(t *testing.T) *box {
	t.Helper()
	testbox.AsUser(t)
	dir := testbox.TempDir(t)
	b := &box{t: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "home/p:r,o j")}
	uid, gid := testbox.AsUser(t)
	for _, d := range []string{b.home, b.project} {
		must(t, os.Mkdir(d, 0o755))
		if os.Geteuid() == 0 {
			must(t, os.Chown(d, uid, gid))
		}
	}
	root := testbox.TempDir(t)
	if os.Geteuid() == 0 {
		must(t, os.Chown(root, 0, 0))
		b.opt.RunAs = "12345"
	}
	b.opt.StateRoot = filepath.Join(root, "state")
	b.opt.RuntimeDir = filepath.Join(root, "run")
	b.opt.Socket = filepath.Join(root, "run/sbxd.sock")
	b.opt.Launcher, b.opt.Worker = testLauncher{}, testWorker{}
	return b
}

// start runs the daemon as a process of its own and waits until it answers.
func (b *box) start(env ...string) {
	b.t.Helper()
	o, err := json.Marshal(map[string]string{
		"StateRoot": b.opt.StateRoot, "Socket": b.opt.Socket, "RuntimeDir": b.opt.RuntimeDir, "RunAs": b.opt.RunAs,
	})
	must(b.t, err)
	b.stderr = &bytes.Buffer{}
	b.cmd = exec.Command("/proc/self/exe")
	b.cmd.Env = append(append(os.Environ(), stageEnv+"=daemon", "SBXD_DAEMON="+string(o)), env...)
	b.cmd.Stderr = b.stderr
	must(b.t, b.cmd.Start())
	b.t.Cleanup(b.end)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if b.Client, err = api.Dial(b.opt.Socket); err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the daemon does not answer: %v\n%s", err, b.stderr)
		}
	}
}

// kill ends the daemon as a crash does.
func (b *box) kill() {
	b.t.Helper()
	must(b.t, b.cmd.Process.Kill())
	_ = b.cmd.Wait()
	b.Client.Close()
	b.cmd = nil
}

// term ends the daemon as systemd does.
func (b *box) term() {
	b.t.Helper()
	must(b.t, b.cmd.Process.Signal(syscall.SIGTERM))
	if err := b.cmd.Wait(); err != nil {
		b.t.Errorf("the daemon ended with %v\n%s", err, b.stderr)
	}
	b.Client.Close()
	b.cmd = nil
}

// end removes what is left of the test's sessions.
func (b *box) end() {
	if b.cmd == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	list, err := b.List(ctx)
	if err != nil {
		b.t.Errorf("List: %v\n%s", err, b.stderr)
	}
	for _, s := range list {
		if err := b.Remove(ctx, s.ID, api.RemoveRequest{Discard: true}); err != nil {
			b.t.Errorf("Remove: %v", err)
		}
	}
	b.term()
}

func (b *box) request() api.StartRequest { return api.StartRequest{Project: b.project, Home: b.home} }

// session starts one and returns it.
func (b *box) session(change ...func(*api.StartRequest)) api.Session {
	b.t.Helper()
	req := b.request()
	for _, f := range change {
		f(&req)
	}
	s, err := b.Start(b.t.Context(), req)
	if err != nil {
		b.t.Fatalf("Start: %v\n%s", err, b.stderr)
	}
	return s
}

// sh runs a shell command in a session and returns what it wrote and its code.
func (b *box) sh(id, script string) (string, int) {
	b.t.Helper()
	var out bytes.Buffer
	exit, err := b.Exec(b.t.Context(), id, api.ExecRequest{Argv: []string{"sh", "-c", script}}, api.Streams{Stdout: &out, Stderr: &out})
	if err != nil {
		b.t.Fatalf("Exec: %v\n%s", err, b.stderr)
	}
	return out.String(), exit.Code
}

// wantCode checks the code and, when says is not empty, the text of an error.
func wantCode(t *testing.T, what string, err error, code int) {
	t.Helper()
	var told *api.Error
	if !errors.As(err, &told) || told.Code != code {
		t.Errorf("%s: %v; want an error of code %d", what, err, code)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
