package land

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLandAndUndo(t *testing.T) {
	b := newBox(t)
	b.host("a", "1").host("d/x", "2").host("d/y", "3").host("gone/z", "4").host("f", "old").host("keep", "k")
	b.must(os.Symlink("a", filepath.Join(b.project, "l")))
	b.start()
	before := treeOf(t, b.project)
	b.write("a", "one").write("new/deep/file", "n").remove("gone").remove("d/x").symlink("keep", "l").mkdir("f").write("f/in", "i").chmod("keep", 0o755)
	cs := b.scan()
	if len(cs.Plan.Conflicts) > 0 {
		t.Fatalf("conflicts: %+v", cs.Plan.Conflicts)
	}
	r, err := Apply(t.Context(), b.options(), cs.ID)
	b.must(err)
	after := treeOf(t, b.project)
	if b.read("a") != "one" || b.read("new/deep/file") != "n" || b.read("gone/z") != "<none>" || b.read("f/in") != "i" || b.read("d/y") != "3" || b.read("d/x") != "<none>" {
		t.Errorf("landed tree: %v", after)
	}
	if left := b.leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if cs := b.scan(); !cs.Empty() {
		t.Errorf("after the landing the diff has %+v", cs.Items)
	}
	if _, err := b.land(); !errors.Is(err, ErrNothing) {
		t.Errorf("second landing: %v, want ErrNothing", err)
	}
	u, err := b.undo(r.Record.ID)
	b.must(err)
	if diff := cmp.Diff(before, treeOf(t, b.project)); diff != "" {
		t.Errorf("after undo:\n%s", diff)
	}
	if cs := b.scan(); cs.Empty() {
		t.Error("after an undo the session's work must be there to land again")
	}
	_, err = b.undo(u.Record.ID)
	b.must(err)
	if diff := cmp.Diff(after, treeOf(t, b.project)); diff != "" {
		t.Errorf("after redo:\n%s", diff)
	}
	if _, err := b.undo(r.Record.ID); !errors.Is(err, ErrRefused) {
		t.Errorf("undo of what is undone: %v, want ErrRefused", err)
	}
	if left := b.leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	all, err := List(b.lands)
	b.must(err)
	if len(all) != 3 || all[0].Undoes != u.Record.ID || all[2].UndoneBy != u.Record.ID {
		t.Errorf("lands: %+v", all)
	}
}
