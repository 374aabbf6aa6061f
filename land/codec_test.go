package land

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

func someNodes() []Node {
	return []Node{
		{Path: "a", Type: overlay.Dir, Mode: 0o2755, UID: 1, GID: 1<<32 - 1, Nlink: 2, Ino: 1 << 63, MTime: safefs.Time{Sec: -1, Nsec: 999999999}},
		{Path: "a/\xff\n", Type: overlay.File, Mode: 0o644, Size: 1 << 40, Digest: sha256.Sum256(nil), Unsure: true, Xattrs: map[string][]byte{"user.b": {0}, "user.a": {}}},
		{Path: "a/link", Type: overlay.Symlink, Mode: 0o777, Target: "/x", Mount: true, CTime: safefs.Time{Sec: 1 << 40}},
	}
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	m := &Manifest{Root: Root{Dev: 7, Ino: 8, BTime: safefs.Time{Sec: 1}, Boot: "b"}, Started: safefs.Time{Sec: 2}, Nodes: someNodes()}
	back, err := decodeManifest(m.encode())
	if diff := cmp.Diff(m, back); err != nil || diff != "" {
		t.Errorf("manifest: %v\n%s", err, diff)
	}
	p := &patch{Gone: []string{"a", "b/c"}, Here: someNodes()}
	pback, err := decodePatch(p.encode())
	if diff := cmp.Diff(p, pback); err != nil || diff != "" {
		t.Errorf("patch: %v\n%s", err, diff)
	}
	ops := []Op{
		{Kind: Replace, Path: "a", New: someNodes(), Old: someNodes()[:1], Mode: 0o755, OtherMode: true},
		{Kind: Create, Path: "b", New: someNodes()},
		{Kind: Remove, Path: "b", Old: someNodes()},
	}
	oback, err := decodeOps(encodeOps(ops))
	if diff := cmp.Diff(ops, oback, cmp.Transformer("", func(n []Node) []Node { return append([]Node{}, n...) })); err != nil || diff != "" {
		t.Errorf("journal: %v\n%s", err, diff)
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	whole := encodeOps([]Op{{Kind: Create, Path: "b", New: someNodes()}})
	for n := range whole {
		if _, err := decodeOps(whole[:n]); err == nil {
			t.Fatalf("cut at %d of %d: no error", n, len(whole))
		}
		bad := slices.Clone(whole)
		bad[n] ^= 1
		if _, err := decodeOps(bad); err == nil {
			t.Fatalf("changed at %d: no error", n)
		}
	}
	for _, op := range []Op{{Kind: Create, Path: "x"}, {Kind: Replace, Path: "x", New: someNodes()}, {Kind: 9, Path: "x"}} {
		if _, err := decodeOps(encodeOps([]Op{op})); err == nil {
			t.Errorf("%+v: no error", op)
		}
	}
}

// Whatever lies below the checksum, reading it ends, and what is read is written
// the same.
func FuzzRecords(f *testing.F) {
	e := &encoder{}
	e.nodes(someNodes())
	f.Add(e.b)
	f.Add(encodeOps([]Op{{Kind: Create, Path: "b", New: someNodes()}})[len(journalMagic):])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, magic := range []string{journalMagic, patchMagic, manifestMagic} {
			b := (&encoder{b: body}).seal(magic)
			switch magic {
			case journalMagic:
				if ops, err := decodeOps(b); err == nil && len(ops) > 0 {
					again, err := decodeOps(encodeOps(ops))
					if err != nil || len(again) != len(ops) {
						t.Errorf("%v", err)
					}
				}
			case patchMagic:
				_, _ = decodePatch(b)
			default:
				if m, err := decodeManifest(b); err == nil && !bytes.HasPrefix(m.encode(), []byte(magic)) {
					t.Error("no magic")
				}
			}
		}
	})
}

func TestPatchesOfABase(t *testing.T) {
	node := func(p string, ino uint64) Node { return Node{Path: p, Type: overlay.File, Ino: ino} }
	dir := func(p string) Node { return Node{Path: p, Type: overlay.Dir} }
	m := &Manifest{Nodes: []Node{dir("a"), node("a/x", 1), dir("a/y"), node("a/y/z", 2), node("a-b", 3), node("c", 4)}}
	patches := []*patch{
		{Gone: []string{"a/y"}, Here: []Node{node("a/y", 5), node("d", 6)}},
		{Gone: []string{"d", "c"}, Here: []Node{dir("c"), node("c/n", 7)}},
		{Gone: []string{"c/n"}, Here: []Node{node("a/x", 8)}},
	}
	want := []Node{dir("a"), node("a/x", 8), node("a/y", 5), node("a-b", 3), dir("c")}
	once := m.apply(patches)
	if diff := cmp.Diff(want, once.Nodes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, once.apply(patches).Nodes); diff != "" {
		t.Errorf("done again:\n%s", diff)
	}
	if got := m.names("a"); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("names of a: %v", got)
	}
	if got := m.names(""); !slices.Equal(got, []string{"a", "a-b", "c"}) {
		t.Errorf("names of the root: %v", got)
	}
	if got := m.tree("a/y"); len(got) != 2 {
		t.Errorf("tree: %v", got)
	}
}
