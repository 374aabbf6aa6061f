package land

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// work fills a box with a project and a session that does every kind of step, n
// times over.
func (b *box) work(n int) *box {
	b.t.Helper()
	for i := range n {
		b.host(fmt.Sprintf("edit%d", i), "old").host(fmt.Sprintf("rm%d/a/b", i), "1").host(fmt.Sprintf("rm%d/c", i), "2")
		b.host(fmt.Sprintf("d2f%d/x", i), "3").host(fmt.Sprintf("f2d%d", i), "4").host(fmt.Sprintf("mode%d", i), "5").hostDir(fmt.Sprintf("shut%d", i))
		b.must(os.Symlink("old", filepath.Join(b.project, fmt.Sprintf("link%d", i))))
	}
	b.start()
	for i := range n {
		b.write(fmt.Sprintf("edit%d", i), "new").remove(fmt.Sprintf("rm%d", i)).write(fmt.Sprintf("d2f%d", i), "file")
		b.mkdir(fmt.Sprintf("f2d%d", i)).write(fmt.Sprintf("f2d%d/in", i), "in").chmod(fmt.Sprintf("mode%d", i), 0o755)
		b.write(fmt.Sprintf("new%d/deep/f", i), "f").symlink("new", fmt.Sprintf("link%d", i)).chmod(fmt.Sprintf("shut%d", i), 0o500)
	}
	return b
}

// settleCrash recovers after a crash and checks that the project is one of the two
// trees, that nothing is left, and that the list of landings agrees. It reports
// whether the work is landed.
func (b *box) settleCrash(before, after map[string]string) bool {
	b.t.Helper()
	if _, err := Recover(b.t.Context(), b.lands, b.project, 0); err != nil {
		b.t.Fatalf("recover: %v", err)
	}
	now := treeOf(b.t, b.project)
	landed := maps.Equal(now, after)
	if !landed && !maps.Equal(now, before) {
		b.t.Fatalf("neither before nor after:\n%s", cmp.Diff(before, now))
	}
	b.must(store{b.lands}.sweepAll())
	if left := b.leftovers(); len(left) > 0 {
		b.t.Fatalf("left: %v", left)
	}
	return landed
}

// sweepAll is sweep without the patience for those who may still be at work.
func (s store) sweepAll() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	long := time.Now().Add(-2 * staleAfter)
	for _, e := range entries {
		if err := os.Chtimes(filepath.Join(s.dir, e.Name()), long, long); err != nil {
			return err
		}
	}
	return s.sweep()
}

// landedNow reports whether the newest landing says that the work is landed.
func (b *box) landedNow() (string, bool) {
	b.t.Helper()
	all, err := List(b.lands)
	b.must(err)
	if len(all) == 0 || all[0].UndoneBy != "" {
		return "", false
	}
	if all[0].Undoes == "" {
		return all[0].ID, true
	}
	// An undo on top: landed again if it took back an undo.
	for _, r := range all {
		if r.ID == all[0].Undoes {
			return all[0].ID, r.Undoes != ""
		}
	}
	return "", false
}

// reset takes the work out again if it is landed, and checks that the session
// still has it.
func (b *box) reset(before, after map[string]string) {
	b.t.Helper()
	landed := b.settleCrash(before, after)
	id, listed := b.landedNow()
	if landed != listed {
		b.t.Fatalf("landed: %v, but the list says %v", landed, listed)
	}
	if landed {
		if cs := b.scan(); !cs.Empty() {
			b.t.Fatalf("landed, but the diff still has %d paths, first %+v", len(cs.Items), cs.Items[0].Change)
		}
		_, err := b.undo(id)
		b.must(err)
	}
	if diff := cmp.Diff(before, treeOf(b.t, b.project)); diff != "" {
		b.t.Fatalf("after the reset:\n%s", diff)
	}
}

// both returns the project before and after the landing, and leaves it before.
func (b *box) both() (before, after map[string]string) {
	b.t.Helper()
	before = treeOf(b.t, b.project)
	r := b.mustLand()
	after = treeOf(b.t, b.project)
	_, err := b.undo(r.Record.ID)
	b.must(err)
	if diff := cmp.Diff(before, treeOf(b.t, b.project)); diff != "" {
		b.t.Fatalf("undo:\n%s", diff)
	}
	return before, after
}

func TestKilledAtRandomTimes(t *testing.T) {
	b := newBoxIn(t, quickDir(t)).work(35)
	before, after := b.both()
	start := time.Now()
	b.must(b.command("apply", "").Run())
	whole := time.Since(start)
	b.reset(before, after)
	rnd := rand.New(rand.NewPCG(1, 1))
	landed := 0
	const rounds = 50
	for range rounds {
		cmd := b.command("apply", "")
		b.must(cmd.Start())
		time.Sleep(time.Duration(rnd.Int64N(int64(whole))))
		b.must(cmd.Process.Kill())
		_ = cmd.Wait()
		if _, ok := b.landedNow(); ok {
			landed++
		}
		b.reset(before, after)
	}
	t.Logf("%d of %d kills came after the landing (%v each)", landed, rounds, whole)
}

// prepared stops a landing just before its first step.
func (b *box) prepared(inside bool) *landing {
	b.t.Helper()
	o := b.options()
	tr, err := openTree(b.project)
	b.must(err)
	l, err := begin(b.t.Context(), store{b.lands}, tr, intent{ID: "bbbbbbbbbbbb", Project: b.project, Root: tr.id, Base: b.base, Inside: inside, Time: now()})
	b.must(err)
	_, err = l.fill(&o, "")
	b.must(err)
	b.must(l.prepare())
	return l
}

// A power cut may keep any of the renames and lose any other.
func TestAnySubsetOfStepsIsTakenBack(t *testing.T) {
	b := newBoxIn(t, quickDir(t)).work(2)
	before, _ := b.both()
	rnd := rand.New(rand.NewPCG(7, 7))
	for round := range 150 {
		l := b.prepared(round%2 == 0)
		a := &applier{ctx: t.Context(), tree: l.tree, stage: l.stage.dir, ops: l.ops, out: make([][]Node, len(l.ops))}
		done := 0
		for _, i := range rnd.Perm(len(l.ops)) {
			if rnd.IntN(2) == 0 {
				b.must(a.step(i))
				done++
			}
		}
		// A recovery that was cut short has taken back some of them.
		r := &reverter{ctx: t.Context(), tree: l.tree, stage: l.stage.dir}
		for _, i := range rnd.Perm(len(l.ops)) {
			if rnd.IntN(3) == 0 {
				clean, err := r.one(&l.ops[i], slotName(i))
				if err != nil || !clean {
					t.Fatalf("round %d: take back %s: %v, %v", round, l.ops[i].Path, clean, err)
				}
			}
		}
		l.close()
		l.tree.close()
		if b.settleCrash(before, nil) {
			t.Fatalf("round %d: landed without a record", round)
		}
	}
}

// What the host does between a crash and the recovery is kept, whatever it is.
func TestHostEditsSurviveRecovery(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	attention := 0
	for round := range 60 {
		b := newBoxIn(t, quickDir(t)).work(1)
		l := b.prepared(false)
		a := &applier{ctx: t.Context(), tree: l.tree, stage: l.stage.dir, ops: l.ops, out: make([][]Node, len(l.ops))}
		for _, i := range rnd.Perm(len(l.ops)) {
			if rnd.IntN(2) == 0 {
				b.must(a.step(i))
			}
		}
		l.close()
		l.tree.close()
		marks := map[string]string{}
		for _, path := range []string{"edit0", "f2d0", "d2f0", "rm0", "new0", "mode0"} {
			if rnd.IntN(2) > 0 {
				continue
			}
			mark := fmt.Sprintf("host %d %s", round, path)
			at := path
			if st, err := os.Lstat(filepath.Join(b.project, path)); err == nil && st.IsDir() {
				at = path + "/hostfile"
			}
			b.host(at, mark)
			marks[at] = mark
		}
		_, err := Recover(t.Context(), b.lands, b.project, 0)
		var att *AttentionError
		if errors.As(err, &att) {
			attention++
		} else if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for path, mark := range marks {
			if got := b.read(path); got != mark {
				t.Errorf("round %d: the host's %s is %q, want %q (%v)", round, path, got, mark, err)
			}
		}
		if _, err := Recover(t.Context(), b.lands, b.project, 0); err != nil {
			t.Errorf("round %d: a second recovery: %v", round, err)
		}
	}
	t.Logf("%d of 60 needed attention", attention)
}
