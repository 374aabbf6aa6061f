package land

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func stat(t testing.TB, name string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestModeOnlyKeepsBytesAndTimes(t *testing.T) {
	b := newBox(t)
	b.host("run.sh", "#!/bin/sh\n").host("s", "s")
	old := time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, n := range []string{"run.sh", "s"} {
		b.must(os.Chtimes(filepath.Join(b.project, n), old, old))
	}
	b.must(os.Chmod(filepath.Join(b.project, "s"), 0o755))
	b.start().chmod("run.sh", 0o755).chmod("s", 0o600)
	ino := stat(t, filepath.Join(b.project, "run.sh")).Ino
	var text strings.Builder
	cs := b.scan()
	b.must(WriteStat(&text, cs, 0))
	if want := "M  run.sh  mode 644 -> 755\nM  s  mode 755 -> 600\n"; text.String() != want {
		t.Errorf("stat %q, want %q", text.String(), want)
	}
	r := b.mustLand()
	if r.Record.Counts != (Counts{Mode: 2}) {
		t.Errorf("counts %+v", r.Record.Counts)
	}
	st := stat(t, filepath.Join(b.project, "run.sh"))
	if st.Mode&0o777 != 0o755 || st.Ino != ino || st.Mtim.Sec != old.Unix() {
		t.Errorf("mode %o, inode %d (was %d), mtime %d", st.Mode, st.Ino, ino, st.Mtim.Sec)
	}
	if st := stat(t, filepath.Join(b.project, "s")); st.Mode&0o777 != 0o600 {
		t.Errorf("s has mode %o", st.Mode)
	}
}

func TestSameSizeAndTimeIsSeen(t *testing.T) {
	b := newBox(t)
	b.host("f", "AAAA\n")
	b.must(os.Symlink("t1", filepath.Join(b.project, "l")))
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	b.must(os.Chtimes(filepath.Join(b.project, "f"), old, old))
	b.start().write("f", "BBBB\n").symlink("t2", "l")
	b.must(os.Chtimes(filepath.Join(b.upper, "f"), old, old))
	b.mustLand()
	to, err := os.Readlink(filepath.Join(b.project, "l"))
	if b.read("f") != "BBBB\n" || to != "t2" {
		t.Errorf("f is %q, l leads to %q, %v", b.read("f"), to, err)
	}
	if st := stat(t, filepath.Join(b.project, "f")); st.Mtim.Sec != old.Unix() {
		t.Errorf("mtime %d, want the session's %d", st.Mtim.Sec, old.Unix())
	}
}

func TestNewEntriesKeepWhatTheyHave(t *testing.T) {
	b := newBox(t).start()
	when := time.Date(2021, 5, 5, 1, 2, 3, 4000, time.UTC)
	b.mkdir("d").write("d/f", "f").mkdir("d/locked").write("d/locked/g", "g").mkdir("sticky")
	b.must(os.Chmod(filepath.Join(b.upper, "d/f"), 0o640))
	b.must(os.Chmod(filepath.Join(b.upper, "sticky"), 0o777|os.ModeSticky))
	b.must(unix.Setxattr(filepath.Join(b.upper, "d/f"), "user.note", []byte("n\x00"), 0))
	b.must(unix.Setxattr(filepath.Join(b.upper, "d"), "user.dir", []byte("d"), 0))
	b.must(os.Link(filepath.Join(b.upper, "d/f"), filepath.Join(b.upper, "hard")))
	b.must(os.Chtimes(filepath.Join(b.upper, "d/f"), when, when))
	b.must(os.Chtimes(filepath.Join(b.upper, "d"), when, when))
	before := treeOf(t, b.project)
	r := b.mustLand()
	f, hard := stat(t, filepath.Join(b.project, "d/f")), stat(t, filepath.Join(b.project, "hard"))
	if f.Ino != hard.Ino || f.Nlink != 2 {
		t.Errorf("the two names are inodes %d and %d with %d links", f.Ino, hard.Ino, f.Nlink)
	}
	if f.Mode&0o7777 != 0o640 || f.Mtim.Nano() != when.UnixNano() {
		t.Errorf("d/f: mode %o, mtime %d, want 640 and %d", f.Mode, f.Mtim.Nano(), when.UnixNano())
	}
	if d := stat(t, filepath.Join(b.project, "d")); d.Mtim.Nano() != when.UnixNano() {
		t.Errorf("d: mtime %d, want %d", d.Mtim.Nano(), when.UnixNano())
	}
	if s := stat(t, filepath.Join(b.project, "sticky")); s.Mode&0o7777 != 0o1777 {
		t.Errorf("sticky: mode %o", s.Mode)
	}
	for name, attr := range map[string]string{"d/f": "user.note", "d": "user.dir"} {
		buf := make([]byte, 8)
		if n, err := unix.Getxattr(filepath.Join(b.project, name), attr, buf); err != nil || n == 0 {
			t.Errorf("%s of %s: %v", attr, name, err)
		}
	}
	_, err := b.undo(r.Record.ID)
	b.must(err)
	if diff := cmp.Diff(before, treeOf(t, b.project)); diff != "" {
		t.Errorf("undone:\n%s", diff)
	}
}

func TestSparseStaysSparse(t *testing.T) {
	b := newBox(t)
	b.start()
	up := filepath.Join(b.upper, "sparse")
	f, err := os.OpenFile(up, os.O_RDWR|os.O_CREATE, 0o644)
	b.must(err)
	_, err = f.WriteAt([]byte("middle"), 64<<20)
	b.must(err)
	b.must(f.Truncate(200 << 20))
	b.must(f.Close())
	b.mustLand()
	st := stat(t, filepath.Join(b.project, "sparse"))
	if st.Size != 200<<20 || st.Blocks*512 > 1<<20 {
		t.Errorf("size %d, allocated %d", st.Size, st.Blocks*512)
	}
	g, err := os.Open(filepath.Join(b.project, "sparse"))
	b.must(err)
	defer g.Close()
	buf := make([]byte, 8)
	if _, err := g.ReadAt(buf, 64<<20-1); err != nil || string(buf) != "\x00middle\x00" {
		t.Errorf("content %q, %v", buf, err)
	}
}

func TestHardLinkSplitIsReported(t *testing.T) {
	b := newBox(t)
	b.host("a", "1")
	b.must(os.Link(filepath.Join(b.project, "a"), filepath.Join(b.project, "b")))
	b.start().write("a", "2")
	r := b.mustLand()
	if len(r.Notices) != 1 || r.Notices[0].Kind != NoteSplit || b.read("b") != "1" {
		t.Errorf("notices %+v, b is %q", r.Notices, b.read("b"))
	}
	_, err := b.undo(r.Record.ID)
	b.must(err)
	if a, c := stat(t, filepath.Join(b.project, "a")), stat(t, filepath.Join(b.project, "b")); a.Ino != c.Ino {
		t.Error("undo did not join the two names again")
	}
}

// Both names of one file go, or change: moving one moves the other's ctime.
func TestBothNamesOfAFile(t *testing.T) {
	b := newBox(t)
	b.host("a", "1").host("d/keep", "k").host("x", "2")
	b.must(errors.Join(os.Link(filepath.Join(b.project, "a"), filepath.Join(b.project, "d/b")), os.Link(filepath.Join(b.project, "x"), filepath.Join(b.project, "y"))))
	b.start().remove("a").remove("d").write("x", "S").write("y", "S")
	before := treeOf(t, b.project)
	r := b.mustLand()
	_, err := b.undo(r.Record.ID)
	b.must(err)
	if diff := cmp.Diff(before, treeOf(t, b.project)); diff != "" {
		t.Errorf("undone:\n%s", diff)
	}
}

// A file of the project has a second name outside: its mode must not follow.
func TestModeOfAFileWithANameOutside(t *testing.T) {
	b := newBox(t)
	out := filepath.Join(filepath.Dir(b.project), "outside")
	b.host("f", "1").host("g", "2")
	b.must(os.Link(filepath.Join(b.project, "f"), out))
	b.start().chmod("f", 0o777)
	r := b.mustLand()
	if st := stat(t, out); st.Mode&0o777 != 0o644 {
		t.Errorf("the name outside has mode %o", st.Mode)
	}
	if st := stat(t, filepath.Join(b.project, "f")); st.Mode&0o777 != 0o777 || len(r.Notices) != 1 {
		t.Errorf("mode %o, notices %+v", st.Mode, r.Notices)
	}
	b.chmod("g", 0o777)
	b.must(os.Link(filepath.Join(b.project, "g"), out+"2"))
	if _, err := b.land(); !errors.Is(err, ErrConflict) {
		t.Errorf("a name that the host made since: %v, want a conflict", err)
	}
}

// The session made a file executable and gave it a second name.
func TestNewNameOfAFileWithAnotherMode(t *testing.T) {
	b := newBox(t)
	b.host("a", "1").start().chmod("a", 0o755)
	b.must(os.Link(filepath.Join(b.upper, "a"), filepath.Join(b.upper, "b")))
	b.mustLand()
	for _, n := range []string{"a", "b"} {
		if st := stat(t, filepath.Join(b.project, n)); st.Mode&0o777 != 0o755 || b.read(n) != "1" {
			t.Errorf("%s: mode %o, %q", n, st.Mode, b.read(n))
		}
	}
}

func TestSetGroupIDDirectories(t *testing.T) {
	b := newBox(t)
	b.hostDir("shared")
	b.must(os.Chmod(filepath.Join(b.project, "shared"), 0o775|os.ModeSetgid))
	if os.Geteuid() == 0 {
		b.must(os.Chown(filepath.Join(b.project, "shared"), -1, 54321))
	}
	b.start().mkdir("shared/d").write("shared/d/f", "x")
	b.mustLand()
	want := stat(t, filepath.Join(b.project, "shared")).Gid
	for name, mode := range map[string]uint32{"shared/d": 0o2755, "shared/d/f": 0o644} {
		if st := stat(t, filepath.Join(b.project, name)); st.Gid != want || st.Mode&0o7777 != mode {
			t.Errorf("%s: group %d, mode %o; want %d, %o", name, st.Gid, st.Mode&0o7777, want, mode)
		}
	}
}

func TestExpectedChangeset(t *testing.T) {
	b := newBox(t)
	b.host("f", "1").host("g", "2").start().write("f", "S").write("n", "x")
	id := b.scan().ID
	b.host("h", "host").write("n", "y").remove("g")
	_, err := Apply(t.Context(), b.options(), id)
	var d *DriftError
	if !errors.As(err, &d) || !slices.Equal(d.Delta, []string{"g", "n"}) {
		t.Fatalf("%v with %+v, want drift of g and n", err, d)
	}
	if b.read("f") != "1" {
		t.Error("something was landed")
	}
	if _, err := Apply(t.Context(), b.options(), "feed"); !errors.Is(err, ErrDrift) {
		t.Errorf("an id that never was: %v", err)
	}
	b.write("n", "x")
	b.must(os.Remove(filepath.Join(b.upper, "g")))
	if now := b.scan().ID; now != id {
		t.Errorf("the same changes have id %s, then %s", id, now)
	}
	_, err = Apply(t.Context(), b.options(), id)
	b.must(err)
}

func TestBaseOfChangedFiles(t *testing.T) {
	b := newBox(t)
	b.host("young", "1")
	b.must(Capture(t.Context(), b.project, b.base, Clock()))
	b.host("young", "12")
	b.must(Capture(t.Context(), b.project, b.base, Clock()))
	m, err := loadBase(b.base)
	b.must(err)
	started := m.Started
	b.host("young", "123")
	settle()
	b.must(Capture(t.Context(), b.project, b.base, started))
	m, err = loadBase(b.base)
	b.must(err)
	if n := m.find("young"); !n.Unsure {
		t.Fatalf("a file that changed after the start counts as the base: %+v", n)
	}
	b.write("young", "S")
	_, err = b.land()
	var c *ConflictError
	if !errors.As(err, &c) || c.Conflicts[0].Kind != ConflictStartEdit {
		t.Errorf("%v, want %s", err, ConflictStartEdit)
	}
}

// What the host takes away after the start and before the recording is in no base. Only
// the mark of the copy in the upper and the time of its directory tell.
func TestRemovedBeforeTheRecording(t *testing.T) {
	for _, dir := range []string{"", "d/"} {
		b := newBox(t)
		b.host(dir+"gone", "1").host(dir+"kept", "1").host("other/f", "1")
		settle()
		started := Clock()
		up := b.write(dir+"gone", "S").touchUp(dir + "gone")
		b.must(unix.Setxattr(up, "user.overlay.origin", nil, 0))
		b.write(dir+"new", "S")
		moved := b.write("other/moved", "S").touchUp("other/moved")
		b.must(unix.Setxattr(moved, "user.overlay.origin", nil, 0))
		b.hostRemove(dir + "gone")
		b.must(Capture(t.Context(), b.project, b.base, started))
		_, err := b.land()
		var c *ConflictError
		if !errors.As(err, &c) || len(c.Conflicts) != 1 || c.Conflicts[0].Kind != ConflictStartEdit || c.Conflicts[0].Path != dir+"gone" {
			t.Errorf("%v, want %s of %sgone", err, ConflictStartEdit, dir)
		}
	}
}

func TestNoBase(t *testing.T) {
	b := newBox(t)
	b.write("f", "1")
	if _, err := b.land(); !errors.Is(err, ErrNoBase) || !errors.Is(err, ErrRefused) {
		t.Errorf("%v, want ErrNoBase and ErrRefused", err)
	}
	b.start()
	b.must(os.WriteFile(filepath.Join(b.base, ManifestFile), []byte("sbxd-base-2\nrubbish that is long enough to hold a checksum"), 0o600))
	if _, err := b.land(); err == nil || errors.Is(err, ErrNothing) {
		t.Errorf("a damaged base: %v", err)
	}
}

// A base is advanced by many landings without growing by a file each.
func TestManyLandingsInARow(t *testing.T) {
	b := newBoxIn(t, quickDir(t))
	b.host("f", "0").host("d/x", "0").start()
	for i := range 3*maxPatches + 5 {
		b.write("f", fmt.Sprint(i))
		if i%2 == 0 {
			b.remove("d")
		} else {
			b.mkdir("d").write("d/x", fmt.Sprint(i))
		}
		if _, err := b.land(); err != nil {
			t.Fatalf("landing %d: %v", i, err)
		}
		if cs := b.scan(); !cs.Empty() {
			t.Fatalf("after landing %d: %+v", i, cs.Items)
		}
	}
	if entries, err := os.ReadDir(b.base); err != nil || len(entries) > 2*maxPatches+maxShown+2 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	all, err := List(b.lands)
	b.must(err)
	if len(all) != KeepCount {
		t.Errorf("%d landings are kept, want %d", len(all), KeepCount)
	}
	for i := 1; i < len(all); i++ {
		if all[i].Time.After(all[i-1].Time) {
			t.Errorf("landing %d is newer than the one before it", i)
		}
	}
}

func TestExpired(t *testing.T) {
	now := time.Now()
	one := func(ino uint64, age time.Duration, bytes int64) Record {
		return Record{intent: intent{Root: Root{Ino: ino}, Time: now.Add(-age)}, State: StateLanded, Done: true, Bytes: bytes}
	}
	attention := one(1, 90*24*time.Hour, 0)
	attention.State = StateAttention
	all := []Record{one(1, 0, 3<<30), one(2, 40*24*time.Hour, 0), one(1, 41*24*time.Hour, 0), attention, one(2, 50*24*time.Hour, 0)}
	var got []int
	for _, r := range expired(all, now) {
		got = append(got, int(now.Sub(r.Time).Hours()/24))
	}
	if !slices.Equal(got, []int{41, 50}) {
		t.Errorf("expired: %v days, want the old ones that are not the newest of their project", got)
	}
}

func TestUndoKeepsTheHostsEdits(t *testing.T) {
	b := newBox(t)
	b.host("f", "1").host("g", "2").start().write("f", "S").write("g", "S").write("d/n", "S").remove("g")
	r := b.mustLand()
	b.host("f", "host")
	before := treeOf(t, b.project)
	_, err := b.undo(r.Record.ID)
	var c *ConflictError
	if !errors.As(err, &c) || !slices.Equal(c.Paths(), []string{"f"}) {
		t.Fatalf("%v, want a conflict on f", err)
	}
	if diff := cmp.Diff(before, treeOf(t, b.project)); diff != "" {
		t.Errorf("a conflict changed the project:\n%s", diff)
	}
	b.host("f", "S").host("d/hostfile", "h")
	if _, err = b.undo(r.Record.ID); !errors.As(err, &c) || !slices.Equal(c.Paths(), []string{"d"}) {
		t.Fatalf("%v, want a conflict on d, which holds a file of the host", err)
	}
	b.hostRemove("d/hostfile")
	_, err = b.undo(r.Record.ID)
	b.must(err)
	if b.read("f") != "1" || b.read("g") != "2" || b.read("d/n") != "<none>" {
		t.Errorf("f %q, g %q, d/n %q", b.read("f"), b.read("g"), b.read("d/n"))
	}
	if _, err := b.undo("aaaaaaaaaaaa"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such landing: %v", err)
	}
	if _, err := b.undo("../../x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a path for an id: %v", err)
	}
}

// A file that a program of the host has open, and writes to during the landing.
func TestLateWriterIsNoticed(t *testing.T) {
	b := newBoxIn(t, quickDir(t)).work(1)
	l := b.prepared(false)
	defer l.close()
	f, err := os.OpenFile(filepath.Join(b.project, "edit0"), os.O_WRONLY, 0)
	b.must(err)
	defer f.Close()
	a := &applier{ctx: t.Context(), tree: l.tree, stage: l.stage.dir, ops: l.ops, out: make([][]Node, len(l.ops))}
	for i := range l.ops {
		b.must(a.step(i))
	}
	b.must(a.late())
	_, err = f.WriteString("LATE")
	b.must(err)
	if err := a.late(); !errors.Is(err, ErrConflict) {
		t.Fatalf("%v, want a conflict", err)
	}
	if err := l.takeBack(ErrConflict); err != nil {
		t.Fatal(err)
	}
	if b.read("edit0") != "LATE" {
		t.Errorf("edit0 is %q", b.read("edit0"))
	}
}

func TestHomeIsShownAndNeverLands(t *testing.T) {
	b := newBox(t)
	b.host(".bashrc", "1").write(".bashrc", "2").write(".git/x", "y")
	o := b.options()
	o.Base = ""
	cs, err := Scan(t.Context(), o)
	b.must(err)
	if len(cs.Items) != 3 || cs.Plan != nil || cs.API("s").ID != "" {
		t.Errorf("%+v", cs)
	}
	if _, err := Apply(t.Context(), o, ""); !errors.Is(err, ErrRefused) {
		t.Errorf("%v, want ErrRefused", err)
	}
}
