package unionfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/overlaytest"
)

// view is a mounted view whose server is a process of its own.
type view struct {
	t                  testing.TB
	a                  *apart
	P                  string // where it is mounted
	dir                string
	lower, upper, work string
	before             overlaytest.Tree
	live               bool // the test changes the lower
	masked             bool // base + changes is not the view
}

// inNamespaces reports whether the test runs with namespaces of its own, and runs
// it so if not.
func inNamespaces(t *testing.T) bool {
	testbox.Need(t, "fuse", "userns")
	if !testbox.Unshared(t) {
		return false
	}
	if err := mnt.MakePrivate(); err != nil {
		t.Fatal(err)
	}
	return true
}

// newView makes layers, fills the lower by a script in it, and mounts.
func newView(t testing.TB, st stage, setup string) *view {
	t.Helper()
	dir := t.TempDir()
	v := &view{t: t, a: &apart{t: t, stage: st}, dir: dir, P: dir + "/view", lower: dir + "/lower", upper: dir + "/upper", work: dir + "/work"}
	for _, d := range []string{v.P, v.lower, v.upper, v.work} {
		v.check(os.Mkdir(d, 0o755))
	}
	v.check(sh(v.lower, setup))
	v.before = v.tree(v.lower)
	v.mount()
	t.Cleanup(v.finish)
	return v
}

func (v *view) check(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *view) mount() {
	v.t.Helper()
	var layers [3]*os.File
	for i, d := range []string{v.lower, v.upper, v.work} {
		f, err := os.Open(d)
		v.check(err)
		defer f.Close()
		layers[i] = f
	}
	m, err := v.a.Mount(overlay.Spec{Lowers: layers[:1], Upper: layers[1], Work: layers[2]})
	v.check(err)
	defer m.Close()
	v.check(mnt.Move(int(m.Fd()), unix.AT_FDCWD, v.P))
}

func (v *view) unmount() {
	v.t.Helper()
	for range 100 {
		if unix.Unmount(v.P, unix.UMOUNT_NOFOLLOW) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	v.t.Error("the view is busy")
	_ = mnt.Detach(v.P)
}

func (v *view) remount() {
	v.t.Helper()
	v.unmount()
	v.mount()
}

func (v *view) server() *child {
	v.a.mu.Lock()
	defer v.a.mu.Unlock()
	return v.a.servers[len(v.a.servers)-1]
}

// finish checks what must hold after every test: the lower is what it was, the view
// is the same after a remount, and base + changes is the view.
func (v *view) finish() {
	v.t.Helper()
	if len(testbox.MountsBelow(v.P)) == 0 {
		v.mount()
	}
	defer v.a.reap()
	if v.t.Failed() {
		v.unmount()
		return
	}
	seen := v.tree(v.P)
	v.remount()
	v.isAgain(seen)
	v.unmount()
	if !v.masked {
		v.addsUp(seen)
	}
	if diff := v.before.Diff(v.tree(v.lower)); diff != "" && !v.live {
		v.t.Errorf("the lower was changed:\n%s", diff)
	}
	if left := v.names(v.work); len(left) > 0 {
		v.t.Errorf("left in work: %q", left)
	}
}

// isAgain checks that the view is what it was. A new server with masks searches for other
// names of what is hidden while it serves, so theirs may be seen at first.
func (v *view) isAgain(seen overlaytest.Tree) {
	v.t.Helper()
	diff := ""
	same := func() bool {
		tree, err := overlaytest.ReadTree(v.P)
		if err != nil {
			diff = err.Error()
			return false
		}
		diff = seen.Diff(tree)
		return diff == ""
	}
	if len(v.a.stage.Masks) > 0 {
		v.eventually("the view is what it was before a remount", same)
	} else {
		same()
	}
	if diff != "" {
		v.t.Errorf("the view is another after a remount:\n%s", diff)
	}
}

func (v *view) addsUp(seen overlaytest.Tree) {
	v.t.Helper()
	sum, err := os.MkdirTemp(v.dir, "sum")
	v.check(err)
	v.check(overlaytest.CopyTree(v.lower, sum))
	v.check(overlaytest.Apply(v.changes(), v.upper, sum))
	if diff := seen.Diff(v.tree(sum)); diff != "" {
		v.t.Errorf("base + changes is not the view:\n%s", diff)
	}
	v.check(os.RemoveAll(sum))
}

func (v *view) changes() *overlay.Set {
	v.t.Helper()
	up, err := safefs.OpenDir(v.upper)
	v.check(err)
	defer up.Close()
	low, err := safefs.OpenDir(v.lower)
	v.check(err)
	defer low.Close()
	base := overlay.NewLive(low)
	defer base.Close()
	set, err := overlay.Changes(context.Background(), up, base, overlay.Options{})
	v.check(err)
	return set
}

func (v *view) tree(dir string) overlaytest.Tree {
	v.t.Helper()
	tr, err := overlaytest.ReadTree(dir)
	v.check(err)
	return tr
}

func (v *view) names(dir string) []string {
	v.t.Helper()
	list, err := os.ReadDir(dir)
	v.check(err)
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// sh runs a script with a shell of its own; $0 is sh.
func sh(dir, script string, env ...string) error {
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (v *view) sh(script string) {
	v.t.Helper()
	v.check(sh(v.P, script, "LOW="+v.lower, "P="+v.P))
}

// fails checks that a script fails inside and says something like text.
func (v *view) fails(script string) {
	v.t.Helper()
	if sh(v.P, script, "LOW="+v.lower, "P="+v.P) == nil {
		v.t.Errorf("%q works, and must not", script)
	}
}

// eventually waits for something that a watcher brings about.
func (v *view) eventually(what string, ok func() bool) {
	v.t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	v.t.Errorf("not within 2 s: %s", what)
}

func reads(path, want string) func() bool {
	return func() bool {
		b, err := os.ReadFile(path)
		return err == nil && string(b) == want
	}
}

func absent(path string) func() bool {
	return func() bool { _, err := os.Lstat(path); return err != nil }
}
