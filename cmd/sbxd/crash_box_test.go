package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/testbox"
)

// launched returns a box with more in its environment and a running daemon; it is
// cleaned up after the test.
func launched(t *testing.T, env ...string) *box {
	t.Helper()
	testbox.Need(t, needSession...)
	uid, gid := testbox.AsUser(t)
	b, err := newBox(testbox.TempDir(t), uid, gid)
	if err == nil {
		b.env = append(b.env, env...)
		err = b.serve()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.clean(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// again starts the daemon that was ended.
func (b *box) again(t *testing.T) {
	t.Helper()
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
}

// killDaemon ends it as a crash does.
func (b *box) killDaemon(t *testing.T) {
	t.Helper()
	if err := b.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func (b *box) status(t *testing.T, id string) (s api.Session) {
	t.Helper()
	if err := json.Unmarshal([]byte(b.run(t, 0, "status", "--json", id)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// patience is how long a machine may take with what takes milliseconds.
const patience = 15 * time.Second

// eventually waits until what is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

// trace is what a machine shows of sessions: the files of the daemon's own places, and
// processes. What a daemon has without any session is left out.
func (b *box) trace(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, top := range []string{"state", "run"} {
		err := filepath.WalkDir(filepath.Join(b.dir, top), func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && filepath.Base(p) == "work" {
				return nil // the kernel's own is locked to an ordinary user
			}
			if err == nil && filepath.Base(filepath.Dir(p)) == "pins" && !strings.Contains(d.Name(), "-") {
				return fs.SkipDir // a whole set, shared by sessions
			}
			out = append(out, strings.TrimPrefix(p, b.dir+"/"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return append(out, b.processes(t)...)
}

// process is one that came of this one: a child, or what a dead parent left.
type process struct {
	pid, parent int
	line        string
}

func (b *box) all(t *testing.T) []process {
	t.Helper()
	var out []process
	kids := children(t)
	for queue := []int{os.Getpid()}; len(queue) > 0; queue = queue[1:] {
		for _, pid := range kids[queue[0]] {
			queue = append(queue, pid)
			words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			line := strings.TrimSpace(strings.ReplaceAll(string(words), "\x00", " "))
			if err == nil && line != "" {
				out = append(out, process{pid, queue[0], line})
			}
		}
	}
	return out
}

// processes lists those of sessions: one shim waits for the next one, with its sandbox.
func (b *box) processes(t *testing.T) []string {
	t.Helper()
	all := b.all(t)
	spare := b.spare(all)
	var out []string
	for _, p := range all {
		if (b.daemon == nil || p.pid != b.daemon.Process.Pid) && !spare[p.pid] {
			out = append(out, "process "+p.line)
		}
	}
	slices.Sort(out)
	return out
}

// spare returns the processes of the waiting shim: the one of the daemon's whose mounter
// has yet to come, or to build a session.
func (b *box) spare(all []process) map[int]bool {
	below := func(root int) map[int]bool {
		tree := map[int]bool{root: true}
		for _, p := range all { // parents come before their children
			tree[p.pid] = tree[p.pid] || tree[p.parent]
		}
		return tree
	}
	for _, shim := range all {
		if shim.line != "sbxd shim" || b.daemon == nil || shim.parent != b.daemon.Process.Pid {
			continue
		}
		tree, session := below(shim.pid), false
		mounter := false
		for _, p := range all {
			session = session || tree[p.pid] && strings.HasPrefix(p.line, "bwrap ")
			mounter = mounter || tree[p.pid] && p.line == "sbxd mounter" && !follows(p.pid)
		}
		if !session || mounter {
			return tree
		}
	}
	return nil
}

// follows reports whether a mounter has done its work and follows single files: it gives
// up new privileges for that.
func follows(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && bytes.Contains(b, []byte("\nNoNewPrivs:\t1\n"))
}

// children lists the processes of this machine by their parents.
func children(t *testing.T) map[int][]int {
	t.Helper()
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	kids := map[int][]int{}
	for _, pid := range all {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		var state string
		var parent int
		_, _ = fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &parent)
		kids[parent] = append(kids[parent], pid)
	}
	return kids
}

// used returns the trace of a machine that has had a session: what stays for good is
// made by the first one.
func (b *box) used(t *testing.T) []string {
	t.Helper()
	b.run(t, 0, "rm", b.run(t, 0, "start", "--project", b.project))
	return b.quiet(t)
}

// quiet returns the trace of a machine on which no process of a session is left, nor one
// that a fork has just made.
func (b *box) quiet(t *testing.T) []string {
	t.Helper()
	eventually(t, "no process is left", func() bool { return len(b.processes(t)) == 0 })
	return slices.DeleteFunc(b.trace(t), func(l string) bool { return strings.HasPrefix(l, "process ") })
}

// noTrace waits until nothing of a session is there but what was there before.
func (b *box) noTrace(t *testing.T, before []string) {
	t.Helper()
	var diff string
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if diff = cmp.Diff(before, b.trace(t)); diff == "" {
			return
		}
	}
	t.Errorf("not as before (-before +after):\n%s", diff)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
