package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
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

// tree is what is in a directory: types, modes and contents by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			must(t, err)
			text += " " + string(b)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			must(t, err)
			text += " " + target
		}
		out[strings.TrimPrefix(p, dir)] = text
		return nil
	}))
	return out
}

// changes change some two hundred files of a project in every way.
const changes = `for i in $(seq 0 99); do echo new$i >f$i; done
for i in $(seq 100 119); do rm f$i; done
mkdir d; for i in $(seq 120 159); do mv f$i d/; done
for i in $(seq 40); do head -c 3000 /dev/urandom >d/g$i; done
chmod +x f160 f161; rm f170; mkdir f170; echo in >f170/x; ln -s f1 link; rm -r old; echo file >old`

// TestKilledInALanding kills a landing at fifty moments, the process that does it or the
// daemon above it. After the next command the project is the old one or the new one, and
// the list of landings says which.
func TestKilledInALanding(t *testing.T) {
	b := served(t)
	must(t, os.MkdirAll(filepath.Join(b.project, "old", "deep"), 0o755))
	for i := range 200 {
		must(t, os.WriteFile(filepath.Join(b.project, fmt.Sprintf("f%d", i)), fmt.Appendf(nil, "old%d\n", i), 0o644))
	}
	if os.Geteuid() == 0 {
		_, gid := testbox.AsUser(t)
		must(t, give(b.project, b.uid, gid))
	}
	id := b.run(t, 0, "start", "--project", b.project)
	b.run(t, 0, "exec", id, "--", "sh", "-c", changes)
	before := tree(t, b.project)
	began := time.Now()
	b.run(t, 0, "land", "--yes", id)
	whole := time.Since(began)
	after := tree(t, b.project)
	b.takeBack(t, before)
	met := map[string]int{}
	const kills = 50
	for i := 0; met["worker"]+met["daemon"] < kills && i < 3*kills; i++ {
		wait := rand.N(whole * 3 / 4) // at its end there is no worker any more
		victim := b.killLanding(t, id, wait, i%5 == 4)
		what := fmt.Sprintf("kill %d: %s after %v", i, victim, wait)
		lands := b.lands(t) // the next command
		now := tree(t, b.project)
		landed := len(lands) > 0 && lands[0].State == "landed" && lands[0].Undoes == ""
		switch {
		case cmp.Equal(now, before) && !landed:
			met["old"]++
		case cmp.Equal(now, after) && landed:
			met["new"]++
			b.takeBack(t, before)
		default:
			t.Fatalf("%s: landed %v (%+v), in between (-old +now):\n%s", what, landed, lands[0], cmp.Diff(before, now))
		}
		met[victim]++
	}
	t.Logf("a whole landing takes %v; %v", whole, met)
	if met["worker"]+met["daemon"] < kills || met["old"] == 0 {
		t.Errorf("the moments are no test: %v", met)
	}
	b.run(t, 0, "land", "--yes", id)
	if d := cmp.Diff(after, tree(t, b.project)); d != "" {
		t.Errorf("after all, landed (-want +got):\n%s", d)
	}
	// What was half made or half removed is sweep's, once it is no longer young.
	seen := b.run(t, 0, "sweep", "--dry-run")
	left, err := filepath.Glob(filepath.Join(b.dir, "state", "*", "lands", "*-*"))
	must(t, err)
	for _, p := range left {
		if !strings.HasPrefix(filepath.Base(p), "lock-") && !strings.Contains(seen, p) {
			t.Errorf("%s is left, and sweep does not know it:\n%s", p, seen)
		}
	}
}

// killLanding lands and kills, after a while, the worker that does it, or the daemon;
// it says what was killed.
func (b *box) killLanding(t *testing.T, id string, wait time.Duration, daemon bool) string {
	t.Helper()
	cmd := b.cmd("land", "--yes", id)
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	time.Sleep(wait)
	if daemon {
		b.killDaemon(t)
		b.again(t)
		// The worker, which nobody killed, lands to the end.
		eventually(t, "the landing is through", func() bool {
			return !slices.ContainsFunc(b.all(t), func(p process) bool { return p.line == "sbxd worker" })
		})
		return "daemon"
	}
	kids, err := proc.Children(b.daemon.Process.Pid)
	must(t, err)
	victim := "nothing"
	for _, pid := range kids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if string(line) == "sbxd\x00worker\x00" && syscall.Kill(pid, syscall.SIGKILL) == nil {
			victim = "worker"
		}
	}
	return victim
}

func (b *box) lands(t *testing.T) (l []api.Landing) {
	t.Helper()
	must(t, json.Unmarshal([]byte(b.run(t, 0, "lands", "--json")), &l))
	return l
}

// takeBack undoes the last landing.
func (b *box) takeBack(t *testing.T, want map[string]string) {
	t.Helper()
	b.run(t, 0, "undo", "--yes", b.lands(t)[0].ID)
	if d := cmp.Diff(want, tree(t, b.project)); d != "" {
		t.Fatalf("after undo (-want +got):\n%s", d)
	}
}
