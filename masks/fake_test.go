package masks

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fakeHost is a tree in memory. Inodes are numbered in the order of the lines.
type fakeHost struct {
	entries map[string]fakeEntry
	blocked map[string]bool // directories that may not be entered
}

type fakeEntry struct {
	info Info
	text string
}

// host makes a tree of lines: "d PATH", "f PATH", "l PATH -> TARGET", "s PATH" (socket),
// "x PATH" (a directory that may not be entered), "h PATH = OTHER" (hard link).
// Directories above are made too.
func host(t *testing.T, lines ...string) *fakeHost {
	t.Helper()
	h := &fakeHost{entries: map[string]fakeEntry{"/": {info: Info{Type: Dir, ID: FileID{1, 2}}}}, blocked: map[string]bool{}}
	for _, line := range lines {
		kind, p, _ := strings.Cut(line, " ")
		p, text, _ := strings.Cut(p, " -> ")
		p, other, _ := strings.Cut(p, " = ")
		for dir := parent(p); dir != "/"; dir = parent(dir) {
			if _, ok := h.entries[dir]; !ok {
				h.add(dir, Dir, "")
			}
		}
		switch kind {
		case "d":
			h.add(p, Dir, "")
		case "f":
			h.add(p, File, "")
		case "l":
			h.add(p, Symlink, text)
		case "s":
			h.add(p, Other, "")
		case "x":
			h.add(p, Dir, "")
			h.blocked[p] = true
		case "h":
			e := h.entries[other]
			e.info.Nlink++
			h.entries[other], h.entries[p] = e, e
		default:
			t.Fatalf("bad line %q", line)
		}
	}
	return h
}

func (h *fakeHost) add(p string, typ Type, text string) {
	h.entries[p] = fakeEntry{Info{typ, FileID{1, uint64(len(h.entries) + 10)}, 1}, text}
}

func (h *fakeHost) Lstat(p string) (Info, error) {
	for dir := parent(p); dir != "/"; dir = parent(dir) {
		if h.blocked[dir] {
			return Info{}, os.ErrPermission
		}
	}
	return h.entries[p].info, nil
}

func (h *fakeHost) Readlink(p string) (string, error) { return h.entries[p].text, nil }

func (h *fakeHost) ReadDir(dir string) ([]string, error) {
	var out []string
	for p := range h.entries {
		if p != "/" && parent(p) == dir {
			out = append(out, filepath.Base(p))
		}
	}
	slices.Sort(out)
	return out, nil
}

func (h *fakeHost) Aliases(q AliasQuery) (AliasAnswer, error) {
	hidden := func(p string) bool {
		_, ok := q.Files[p]
		return ok || slices.ContainsFunc(q.Dirs, func(d string) bool { return Within(p, d) })
	}
	var a AliasAnswer
	for p, e := range h.entries {
		if !hidden(p) || e.info.Type != File || e.info.Nlink < 2 {
			continue
		}
		for other, o := range h.entries {
			if o.info.ID == e.info.ID && !hidden(other) && slices.ContainsFunc(q.Roots, func(r string) bool { return Within(other, r) }) {
				a.Links = append(a.Links, HardLink{p, other})
			}
		}
	}
	slices.SortFunc(a.Links, func(x, y HardLink) int { return strings.Compare(x.Hidden+x.Visible, y.Hidden+y.Visible) })
	return a, nil
}

const (
	testHome    = "/home/u"
	testProject = "/home/u/p"
)

// input is a session of /home/u in /home/u/p with the given rules.
func input(rules ...Rule) Input {
	return Input{
		Home: testHome, Project: testProject,
		Base:      []string{"/bin", "/etc", "/usr"},
		StateDirs: []string{"/var/tmp/sbxd-1000", "/run/user/1000/sbxd", "/home/u/.config/sbxd"},
		Rules:     rules,
	}
}

func rule(class Class, path string) Rule {
	return Rule{Class: class, Path: path, From: "test"}
}

func mustMake(t *testing.T, in Input, h Host) Plan {
	t.Helper()
	plan, err := Make(in, h)
	if err != nil {
		t.Fatalf("make the plan: %v", err)
	}
	return plan
}

// print writes a plan for people; rows of the built-in table are left out unless they
// differ from a plain cover of a missing path.
func print(p Plan, all bool) string {
	var b strings.Builder
	quiet := map[string]bool{}
	for _, s := range p.Steps {
		if s.Rule.From == fromBuiltin && s.Op == Cover && s.Missing && len(s.Inside) == 0 && !all {
			quiet[s.Path] = true
			continue
		}
		fmt.Fprintf(&b, "%-14s %-10s %-4s %q", s.Phase, s.Op, s.Kind, s.Path)
		if s.Source != "" && s.Source != s.Path {
			fmt.Fprintf(&b, " from %q", s.Source)
		}
		if s.Missing {
			b.WriteString(" missing")
		}
		for _, i := range s.Inside {
			fmt.Fprintf(&b, " inside %s %q", i.Kind, i.Path)
		}
		fmt.Fprintf(&b, " (%s)\n", s.Rule.From)
	}
	for _, h := range p.Placeholders {
		if !quiet[join(h.View, h.Path)] || all {
			fmt.Fprintf(&b, "placeholder %s %q in %q\n", h.Kind, h.Path, h.View)
		}
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	for _, u := range p.Unmatched {
		fmt.Fprintf(&b, "unmatched: %q\n", u.Path)
	}
	for _, l := range p.Links {
		fmt.Fprintf(&b, "link %q -> %q\n", l.Path, l.Target)
	}
	return b.String()
}

// golden compares got with testdata/NAME.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, d)
	}
}
