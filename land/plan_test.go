package land

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// The cases of testdata/plan.txt: a name, then one line a path with what the base,
// the project now and the session have there, then what the plan is.
//
//   - nothing   f:BYTES[:MODE] file   d[:MODE] directory   l:TARGET link
//     o[:MODE] directory made anew   ? changed near the start, f:… before it
const planCases = "testdata/plan.txt"

func TestMakePlan(t *testing.T) {
	text, err := os.ReadFile(planCases)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		in, want, _ := strings.Cut(block+"\n", "=>\n")
		name, rows, _ := strings.Cut(in, "\n")
		got := planOf(t, rows)
		t.Run(strings.TrimPrefix(name, "# "), func(t *testing.T) {
			if diff := cmp.Diff(want, got); diff != "" && !*update {
				t.Errorf("plan of\n%s\n%s", rows, diff)
			}
		})
		fmt.Fprintf(&out, "%s=>\n%s\n", in, got)
	}
	if *update {
		if err := os.WriteFile(planCases, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// planOf builds the three sides of a case, plans, and prints the plan.
func planOf(t *testing.T, rows string) string {
	t.Helper()
	base := &Manifest{}
	now := &Now{Nodes: map[string]*Node{}, Blocked: map[string]Block{}, Folds: map[string]bool{}, Alias: map[string]string{}}
	var items []Item
	var opaque []string
	for i, row := range strings.Split(strings.TrimSpace(rows), "\n") {
		f := strings.Fields(row)
		switch {
		case f[0] == "folds":
			now.Folds[strings.TrimPrefix(f[1], "/")] = true
			continue
		case f[0] == "alias":
			now.Alias[f[1]] = f[2]
			continue
		case f[0] == "blocked":
			now.Blocked[f[1]] = Block{At: f[2], What: f[3]}
			continue
		case len(f) != 4:
			t.Fatalf("row %q: want path, base, now, session", row)
		}
		b, n, o := entry(t, f[0], f[1], i), entry(t, f[0], f[2], i), entry(t, f[0], f[3], i)
		if n != nil && f[1] != f[2] {
			n.Ino, n.CTime.Sec = n.Ino+1000, n.CTime.Sec+1000
		}
		if b != nil {
			base.Nodes = append(base.Nodes, *b)
		}
		if n != nil {
			now.Nodes[f[0]] = n
		}
		if strings.HasPrefix(f[3], "o") {
			opaque = append(opaque, f[0])
		}
		if it, ok := item(f[0], b, o); ok {
			items = append(items, it)
		}
	}
	slices.SortFunc(base.Nodes, func(a, b Node) int { return overlay.ComparePaths(a.Path, b.Path) })
	slices.SortFunc(items, func(a, b Item) int { return overlay.ComparePaths(a.Path, b.Path) })
	return printPlan(MakePlan("/p", items, opaque, base, now))
}

// entry reads one state of a path; nil is nothing.
func entry(t *testing.T, path, s string, i int) *Node {
	t.Helper()
	if s == "-" {
		return nil
	}
	n := &Node{Path: path, Ino: uint64(i + 1), CTime: safefs.Time{Sec: int64(i + 1)}, Nlink: 1}
	n.Unsure = strings.HasPrefix(s, "?")
	p := strings.Split(strings.TrimPrefix(s, "?"), ":")
	mode := ""
	switch p[0] {
	case "f":
		n.Type, n.Mode, n.Size, n.Digest = overlay.File, 0o644, int64(len(p[1])), sha256.Sum256([]byte(p[1]))
		if len(p) > 2 {
			mode = p[2]
		}
	case "d", "o":
		n.Type, n.Mode = overlay.Dir, 0o755
		if len(p) > 1 {
			mode = p[1]
		}
	case "l":
		n.Type, n.Mode, n.Target = overlay.Symlink, 0o777, p[1]
	default:
		t.Fatalf("state %q of %s", s, path)
	}
	if mode != "" {
		m, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		n.Mode = uint32(m)
	}
	return n
}

// item is what the decoder of an upper says of the base's and the session's side.
func item(path string, b, o *Node) (Item, bool) {
	it := Item{Change: overlay.Change{Path: path}}
	if b != nil {
		it.Was, it.WasMode = b.Type, b.Mode
	}
	switch {
	case b == nil && o == nil:
		return it, false
	case o == nil:
		it.Op, it.Type = overlay.Delete, b.Type
		return it, true
	}
	it.Type, it.Mode, it.Size, it.Target, it.Digest, it.Nlink, it.Ino = o.Type, o.Mode, o.Size, o.Target, o.Digest, 1, o.Ino
	switch {
	case b == nil:
		it.Op = overlay.Add
	case b.Unsure || !sameBytes(b, o):
		it.Op = overlay.Modify
	case !samePerm(b, o):
		it.Op = overlay.Mode
	default:
		return it, false
	}
	return it, true
}

func printPlan(p *Plan) string {
	var b strings.Builder
	for _, c := range p.Conflicts {
		fmt.Fprintf(&b, "conflict %s %s\n", c.Path, c.Kind)
	}
	for _, op := range p.Ops {
		fmt.Fprintf(&b, "%s %s", op.Kind, op.Path)
		if op.Kind == Chmod {
			fmt.Fprintf(&b, " %o -> %o", op.Old[0].Mode, op.New[0].Mode)
		}
		for _, n := range op.Old {
			if op.Kind != Chmod && n.Path != op.Path {
				fmt.Fprintf(&b, " -%s", n.Path)
			}
		}
		for _, n := range op.New {
			if op.Kind != Chmod && n.Path != op.Path {
				fmt.Fprintf(&b, " +%s", n.Path)
			}
		}
		b.WriteByte('\n')
	}
	for _, h := range p.Held {
		fmt.Fprintf(&b, "held %s %s\n", h.Path, h.Reason)
	}
	for _, n := range p.Notices {
		fmt.Fprintf(&b, "notice %s %s\n", n.Path, n.Kind)
	}
	return b.String()
}
