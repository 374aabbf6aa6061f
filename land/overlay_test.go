package land

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sbxd/sbxd/internal/testbox"
)

// mount shows a box's session through a real overlay, as the holder mounts it.
func (b *box) mount() string {
	b.t.Helper()
	dir := filepath.Dir(b.upper)
	merged, work := filepath.Join(dir, "merged"), filepath.Join(dir, "work")
	b.must(errors.Join(os.MkdirAll(merged, 0o755), os.MkdirAll(work, 0o755)))
	opts := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", b.project, b.upper, work)
	if err := unix.Mount("overlay", merged, "overlay", 0, opts); err != nil {
		b.t.Fatalf("mount the session's view: %v", err)
	}
	return merged
}

// names are few, so that random work meets itself.
var names = rapid.SampledFrom([]string{"a", "b", "c", "a/a", "a/b", "b/a", "b/c", "c/a", "a/a/a", "a/a/b", "b/a/c", "a-b", "\xff", ".wh.a"})

// randomWork does n random things below root. What does not work is left out.
func randomWork(rt *rapid.T, root, label string, n int) {
	for i := range n {
		p := filepath.Join(root, names.Draw(rt, label))
		q := filepath.Join(root, names.Draw(rt, label))
		text := fmt.Sprintf("%s%d", label, rapid.IntRange(0, 3).Draw(rt, "text"))
		switch rapid.IntRange(0, 10).Draw(rt, "op") {
		case 0, 1, 2:
			_ = os.WriteFile(p, []byte(text), 0o644)
		case 3, 4:
			_ = os.Mkdir(p, 0o755)
		case 5:
			_ = os.RemoveAll(p)
		case 6:
			_ = os.Remove(p)
		case 7:
			_ = os.Rename(p, q)
		case 8:
			_ = os.Symlink(text, p)
		case 9:
			_ = os.Chmod(p, os.FileMode(0o700|rapid.SampledFrom([]int{0, 0o55, 0o44}).Draw(rt, "mode")))
		case 10:
			if f, err := os.OpenFile(p, os.O_RDWR, 0); err == nil && i%2 == 0 {
				f.Close() // a copy-up without a change
			} else if err == nil {
				_, _ = f.WriteString("+")
				f.Close()
			}
		}
	}
}

// What lands is the session's view, and what undo gives is the project before; for
// random trees and random work.
func TestLandedIsWhatTheSessionSaw(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := quickDir(t)
	round, landed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		b := newBoxIn(t, filepath.Join(dir, fmt.Sprint(round)))
		randomWork(rt, b.project, "base", 15)
		b.start()
		before := treeOf(t, b.project)
		merged := b.mount()
		randomWork(rt, merged, "work", 20)
		seen := treeOf(t, merged)
		if err := unix.Unmount(merged, 0); err != nil {
			rt.Fatal(err)
		}
		cs, err := Scan(t.Context(), b.options())
		if err != nil {
			rt.Fatal(err)
		}
		if len(cs.Plan.Conflicts) > 0 {
			rt.Fatalf("conflicts without a host: %+v", cs.Plan.Conflicts)
		}
		r, err := Apply(t.Context(), b.options(), cs.ID)
		switch {
		case errors.Is(err, ErrNothing):
		case err != nil:
			rt.Fatal(err)
		default:
			landed++
		}
		sameTree(rt, "landed", seen, treeOf(t, b.project))
		if cs, err := Scan(t.Context(), b.options()); err != nil || !cs.Empty() {
			rt.Fatalf("after the landing: %+v, %v", cs, err)
		}
		if r != nil {
			if _, err := b.undo(r.Record.ID); err != nil {
				rt.Fatal(err)
			}
			sameTree(rt, "undone", before, treeOf(t, b.project))
		}
		if left := b.leftovers(); len(left) > 0 {
			rt.Fatalf("left: %v", left)
		}
		_ = os.RemoveAll(filepath.Join(dir, fmt.Sprint(round)))
	})
	if landed == 0 {
		t.Error("nothing was ever landed")
	}
}

// sameTree compares without the times: an overlay gives a copied directory or link
// the time of the copy.
func sameTree(rt *rapid.T, what string, want, got map[string]string) {
	if diff := cmp.Diff(timeless(want), timeless(got)); diff != "" {
		rt.Fatalf("%s:\n%s", what, diff)
	}
}

func timeless(tree map[string]string) map[string]string {
	out := map[string]string{}
	for p, line := range tree {
		f := strings.SplitN(line, " ", 3)
		if len(f) == 3 && f[1] != "->" {
			line = f[0] + " " + f[2]
		}
		out[p] = line
	}
	return out
}

// The same with a host that works meanwhile: all or nothing, and nothing of the
// host's is lost that is not in the undo.
func TestHostAndSessionAtRandom(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := quickDir(t)
	round, landed, conflicts := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		b := newBoxIn(t, filepath.Join(dir, fmt.Sprint(round)))
		randomWork(rt, b.project, "base", 15)
		b.start()
		merged := b.mount()
		randomWork(rt, merged, "work", 6)
		if err := unix.Unmount(merged, 0); err != nil {
			rt.Fatal(err)
		}
		settle()
		base := treeOf(t, b.project)
		randomWork(rt, b.project, "host", 4)
		before := treeOf(t, b.project)
		r, err := Apply(t.Context(), b.options(), "")
		after := treeOf(t, b.project)
		switch {
		case err == nil:
			landed++
		case errors.Is(err, ErrConflict):
			conflicts++
			fallthrough
		case errors.Is(err, ErrNothing):
			if diff := cmp.Diff(before, after); diff != "" {
				rt.Fatalf("%v, but:\n%s", err, diff)
			}
			return
		default:
			rt.Fatal(err)
		}
		for p, line := range before {
			if base[p] != line && after[p] != line {
				rt.Fatalf("the host's %q was %s, is %q", p, line, after[p])
			}
		}
		for p := range base {
			if _, ok := before[p]; !ok && after[p] != "" {
				rt.Fatalf("the host removed %q, it is back: %s", p, after[p])
			}
		}
		if _, err := b.undo(r.Record.ID); err != nil {
			rt.Fatal(err)
		}
		sameTree(rt, "undone", before, treeOf(t, b.project))
		_ = os.RemoveAll(filepath.Join(dir, fmt.Sprint(round)))
	})
	if landed == 0 || conflicts == 0 {
		t.Errorf("%d landed, %d conflicts: one side was never tested", landed, conflicts)
	}
}

// A file system of 2 MiB, and a session that is larger.
func TestFullDisk(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := diskDir(t)
	small := filepath.Join(dir, "small")
	if err := errors.Join(os.Mkdir(small, 0o755), unix.Mount("tmpfs", small, "tmpfs", 0, "size=2m")); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(small, unix.MNT_DETACH) }()
	for _, place := range []string{"beside", "inside"} {
		b := newBoxIn(t, dir)
		b.project = filepath.Join(small, place)
		b.must(os.Mkdir(b.project, 0o755))
		if place == "beside" {
			b.lands = filepath.Join(small, "lands")
		}
		b.host("f", "1").start().write("f", "2").write("big", strings.Repeat("x", 4<<20))
		before := treeOf(t, b.project)
		_, err := b.land()
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v, want no space", place, err)
		}
		if diff := cmp.Diff(before, treeOf(t, b.project)); diff != "" {
			t.Errorf("%s: a full disk changed the project:\n%s", place, diff)
		}
		if left := b.leftovers(); len(left) > 0 {
			t.Errorf("%s: left: %v", place, left)
		}
		b.write("big", "small")
		if _, err := b.land(); err != nil {
			t.Errorf("%s: with room: %v", place, err)
		}
		b.must(os.RemoveAll(b.base))
		b.must(os.RemoveAll(b.upper))
	}
}

func TestReadOnlyProject(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := diskDir(t)
	b := newBoxIn(t, dir)
	b.must(unix.Mount("tmpfs", b.project, "tmpfs", 0, "size=2m"))
	defer func() { _ = unix.Unmount(b.project, unix.MNT_DETACH) }()
	b.host("f", "1").start().write("f", "2")
	b.must(unix.Mount("", b.project, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if _, err := b.land(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("%v, want ErrRefused that says read-only", err)
	}
	if left := b.leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	b.must(unix.Mount("", b.project, "", unix.MS_REMOUNT, ""))
	if _, err := b.land(); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

// A mount below the project is neither entered nor moved.
func TestMountBelowTheProject(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	b := newBox(t)
	b.hostDir("m").hostDir("d/m").start()
	b.write("m/new", "S").remove("d")
	for _, m := range []string{"m", "d/m"} {
		at := filepath.Join(b.project, m)
		b.must(unix.Mount("tmpfs", at, "tmpfs", 0, "size=1m"))
		defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
	}
	_, err := b.land()
	var c *ConflictError
	if !errors.As(err, &c) {
		t.Fatalf("%v, want a conflict", err)
	}
	for _, one := range c.Conflicts {
		if one.Kind != ConflictMount {
			t.Errorf("%+v, want %s", one, ConflictMount)
		}
	}
}

// An agent that never stops writing: either a whole copy is landed, or busy.
func TestSessionThatGoesOnWriting(t *testing.T) {
	b := newBoxIn(t, quickDir(t))
	b.start()
	for i := range 200 {
		b.write(fmt.Sprintf("f%d", i), strings.Repeat("a", 9000))
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				c := string(rune('a' + i%26))
				_ = os.WriteFile(filepath.Join(b.upper, "f7"), []byte(strings.Repeat(c, 9000)), 0o644)
			}
		}
	}()
	_, err := b.land()
	if err != nil && !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy or none", err)
	}
	if err == nil {
		c := b.read("f7")
		if c != strings.Repeat(c[:1], len(c)) {
			t.Errorf("a torn copy was landed: %.20q…", c)
		}
	}
	close(stop)
	<-done
	paused := 0
	o := b.options()
	o.Pause = func() (func(), error) { paused++; return func() { paused-- }, nil }
	if _, err := Apply(t.Context(), o, ""); err != nil && !errors.Is(err, ErrNothing) {
		t.Errorf("paused: %v", err)
	}
	if paused != 0 {
		t.Errorf("paused and not resumed: %d", paused)
	}
}
