package daemon

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/testbox"
)

func TestLifeOfASession(t *testing.T) {
	b := newBox(t)
	b.start()
	ctx := t.Context()
	s := b.session(func(r *api.StartRequest) {
		r.Name, r.Labels, r.Env = "thread-1", map[string]string{"chat": "7"}, []string{"TOKEN=s3cret"}
	})
	uid, _ := testbox.AsUser(t)
	if s.State != "running" || s.UID != uid || s.Name != "thread-1" || s.Pids["shim"] == 0 || s.Backend != "kernel" || len(s.Warnings) == 0 {
		t.Errorf("started: %+v", s)
	}
	if out, code := b.sh("thread-1", `echo "$TOKEN"; echo x >made; id -u; exit 7`); code != 7 || !strings.HasPrefix(out, "s3cret\n") {
		t.Errorf("exec: %q, code %d", out, code)
	}
	got, err := b.Session(ctx, s.ID)
	if err != nil || got.Unlanded == nil || *got.Unlanded != 1 || strings.Contains(strings.Join(got.EnvNames, " "), "s3cret") {
		t.Errorf("status: %+v, %v", got, err)
	}
	wantCode(t, "rm with unlanded work", b.Remove(ctx, s.ID, api.RemoveRequest{}), api.ExitGate)
	if st, err := b.Session(ctx, s.ID); err != nil || st.State != "running" {
		t.Errorf("after a refused rm: %+v, %v", st, err)
	}
	_, err = b.Stop(ctx, s.ID)
	must(t, err)
	got, err = b.Resume(ctx, "thread-1")
	if err != nil || got.State != "running" || got.Pids["shim"] == s.Pids["shim"] {
		t.Errorf("resume: %+v, %v", got, err)
	}
	if out, code := b.sh(s.ID, `cat made; echo "$TOKEN"`); code != 0 || out != "x\ns3cret\n" {
		t.Errorf("after resume: %q, code %d", out, code)
	}
	_, err = b.Resume(ctx, s.ID)
	wantCode(t, "resume of a running one", err, api.ExitRefused)
	for range 2 { // stopping what is stopped is no fault
		got, err = b.Stop(ctx, s.ID)
		if err != nil || got.State != "stopped" || len(got.Pids) != 0 {
			t.Errorf("stop: %+v, %v", got, err)
		}
	}
	_, err = b.Exec(ctx, s.ID, api.ExecRequest{Argv: []string{"true"}}, api.Streams{})
	wantCode(t, "exec in a stopped session", err, api.ExitRefused)
	must(t, b.Remove(ctx, s.ID, api.RemoveRequest{Discard: true}))
	_, err = b.Session(ctx, s.ID)
	wantCode(t, "status of a removed one", err, api.ExitNotFound)
	b.nothingLeft()
}

// nothingLeft checks that no session has left a file, a socket or a process.
func (b *box) nothingLeft() {
	b.t.Helper()
	var left []string
	_ = filepath.WalkDir(b.opt.StateRoot, func(p string, d fs.DirEntry, _ error) error {
		rel, _ := filepath.Rel(b.opt.StateRoot, p)
		if strings.Contains(rel, "sessions/") || d != nil && d.Type() == fs.ModeSocket {
			left = append(left, rel)
		}
		return nil
	})
	sockets, _ := filepath.Glob(filepath.Join(b.opt.RuntimeDir, "s/*"))
	if left = append(left, sockets...); len(left) > 0 {
		b.t.Errorf("left behind: %q", left)
	}
}

func TestNames(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session(func(r *api.StartRequest) { r.Name = "one" })
	req := b.request()
	req.Name = "one"
	_, err := b.Start(t.Context(), req)
	wantCode(t, "a name twice", err, api.ExitRefused)
	for _, bad := range []string{"Up", "a b", "../x", s.ID} {
		req.Name = bad
		_, err := b.Start(t.Context(), req)
		wantCode(t, bad, err, api.ExitUsage)
	}
	for _, ref := range []string{"none", "abcdefghijkl", "..", "%2e%2e", "a/b", "\x00", strings.Repeat("x", 5000)} {
		_, err := b.Session(t.Context(), ref)
		wantCode(t, ref, err, api.ExitNotFound)
	}
	child := b.session(func(r *api.StartRequest) { r.Parent = "one" })
	if child.Parent != s.ID {
		t.Errorf("parent %q, want %q", child.Parent, s.ID)
	}
	req = b.request()
	req.Parent = "nobody"
	_, err = b.Start(t.Context(), req)
	wantCode(t, "an unknown parent", err, api.ExitNotFound)
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != s.ID {
		t.Errorf("List: %+v, %v", list, err)
	}
}

func TestBadRequestsMakeNothing(t *testing.T) {
	b := newBox(t)
	b.start()
	must(t, os.Symlink("/nowhere", filepath.Join(b.project, "dangling")))
	for name, c := range map[string]struct {
		change func(*api.StartRequest)
		code   int
	}{
		"relative":       {func(r *api.StartRequest) { r.Project = "p" }, api.ExitUsage},
		"empty":          {func(r *api.StartRequest) { r.Project = "" }, api.ExitUsage},
		"NUL":            {func(r *api.StartRequest) { r.Project += "\x00" }, api.ExitUsage},
		"dots":           {func(r *api.StartRequest) { r.Project += "/../x" }, api.ExitUsage},
		"not UTF-8":      {func(r *api.StartRequest) { r.Project += "\xff" }, api.ExitRefused},
		"missing":        {func(r *api.StartRequest) { r.Project += "/none" }, api.ExitNotFound},
		"dangling":       {func(r *api.StartRequest) { r.Project += "/dangling" }, api.ExitNotFound},
		"4000 bytes":     {func(r *api.StartRequest) { r.Project += strings.Repeat("/x", 2000) }, api.ExitUsage},
		"slash":          {func(r *api.StartRequest) { r.Project = "/" }, api.ExitRefused},
		"above HOME":     {func(r *api.StartRequest) { r.Project = filepath.Dir(b.home) }, api.ExitRefused},
		"state root":     {func(r *api.StartRequest) { r.Project = filepath.Dir(b.opt.StateRoot) }, api.ExitRefused},
		"HOME missing":   {func(r *api.StartRequest) { r.Home += "/none" }, api.ExitNotFound},
		"HOME of root":   {func(r *api.StartRequest) { r.Home = "/etc" }, api.ExitRefused},
		"filtered":       {func(r *api.StartRequest) { r.Network = "filtered" }, api.ExitRefused},
		"other network":  {func(r *api.StartRequest) { r.Network = "bridge" }, api.ExitUsage},
		"other backend":  {func(r *api.StartRequest) { r.Backend = "zfs" }, api.ExitUsage},
		"environment":    {func(r *api.StartRequest) { r.Env = []string{"A B=c"} }, api.ExitUsage},
		"label":          {func(r *api.StartRequest) { r.Labels = map[string]string{"a b": ""} }, api.ExitUsage},
		"mask pattern":   {func(r *api.StartRequest) { r.Masks, r.Backend = []string{"**/.env"}, "kernel" }, api.ExitRefused},
		"input pattern":  {func(r *api.StartRequest) { r.ReadOnly = []string{"**/.env"} }, api.ExitRefused},
		"mask of a user": {func(r *api.StartRequest) { r.Masks = []string{"~root/x"} }, api.ExitRefused},
		"no such agent":  {func(r *api.StartRequest) { r.Agent = "skynet" }, api.ExitUsage},
		"no such user":   {func(r *api.StartRequest) { r.RunAs = "nobody-of-that-name" }, api.ExitNotFound},
		"as root":        {func(r *api.StartRequest) { r.RunAs = "root" }, asRoot()},
		"a failed shim":  {func(r *api.StartRequest) { r.Labels = map[string]string{"launch": "fails"} }, api.ExitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			req := b.request()
			c.change(&req)
			_, err := b.Start(t.Context(), req)
			wantCode(t, "Start", err, c.code)
			if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 700) {
				t.Errorf("not one clear line: %q", err)
			}
		})
	}
	if list, err := b.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List: %+v, %v", list, err)
	}
	b.nothingLeft()
}

func asRoot() int {
	if os.Geteuid() == 0 {
		return api.ExitRefused
	}
	return api.ExitDenied
}

func TestTwoDaemons(t *testing.T) {
	b := newBox(t)
	b.start()
	again := b.opt
	wantCode(t, "the same state root", Run(t.Context(), again), api.ExitBusy)
	again.StateRoot += "2"
	wantCode(t, "the same socket", Run(t.Context(), again), api.ExitBusy)
	if _, err := b.Version(t.Context()); err != nil {
		t.Errorf("the first does not answer any more: %v", err)
	}
}

func TestSocketOfADeadDaemonIsTakenOver(t *testing.T) {
	b := newBox(t)
	b.start()
	b.kill()
	if _, err := os.Lstat(b.opt.Socket); err != nil {
		t.Fatalf("the socket went with the daemon: %v", err)
	}
	_, err := api.Dial(b.opt.Socket)
	wantCode(t, "a dead daemon", err, api.ExitNoDaemon)
	b.start()
	st, err := os.Lstat(b.opt.Socket)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", st, err)
	}
	b.term()
	if _, err := os.Lstat(b.opt.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left after an orderly end: %v", err)
	}
}

func TestPlaceOfTheSocket(t *testing.T) {
	dir := testbox.TempDir(t)
	long := filepath.Join(dir, strings.Repeat("d", 200), strings.Repeat("e", 200), "s.sock")
	ln, err := listen(long)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if c, err := api.Dial(long); err != nil {
		t.Errorf("a path of %d bytes: %v", len(long), err)
	} else {
		c.Close()
	}
	must(t, ln.Close())
	if _, err := os.Lstat(long); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, bad := range []string{"relative.sock", file} {
		if l, err := listen(bad); err == nil {
			l.Close()
			t.Errorf("listening on %s", bad)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("the file in the socket's place: %q, %v", b, err)
	}
	if _, err := net.Dial("unix", long); err == nil {
		t.Error("the long path was dialled directly")
	}
}
