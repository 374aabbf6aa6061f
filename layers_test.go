// Package sbxd_test holds the tests of the tree itself: which package may import
// which, that each says what it is, and that files stay of a size to be read. It
// knows the layout of the project and nothing of what the code does.
package sbxd_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sbxd/sbxd"

// layers lists every package, lowest line first. A package imports only from lower
// lines, never from its own; a folder below a listed one belongs to that line, and
// may import the package it lies in (overlay/kernel imports overlay).
var layers = [][]string{
	{"internal/fault", "internal/feature", "internal/glob", "internal/probe"},
	{"internal/proc"},
	{
		"internal/backing", "internal/execlog", "internal/hostpath", "internal/keylock", "internal/landlock", "internal/mnt", "internal/peer",
		"internal/safefs", "internal/scratch", "internal/testbox", "internal/wire",
	},
	{"api", "config", "masks", "overlay"},
	{"bwrap"},
	{"session"},
	{"land", "sweep"},
	{"internal/doctor", "internal/guest", "internal/holder", "internal/worker"},
	{"internal/shim"}, // plans what the holder does
	{"internal/daemon"},
	{"cmd/sbxd"},
}

// onlyIn says where an outside module may be linked from; a module that is not
// listed may be used by any package above the leaves.
var onlyIn = map[string][]string{
	"go.uber.org/zap":                 {"internal/daemon", "cmd/sbxd"},
	"github.com/spf13/cobra":          {"cmd/sbxd"},
	"github.com/moby/sys/mountinfo":   {"overlay", "sweep", "internal/doctor", "internal/holder", "internal/shim"},
	"github.com/google/go-cmp":        {},
	"github.com/rogpeppe/go-internal": {},
	"go.uber.org/goleak":              {"internal/testbox"},
	"pgregory.net/rapid":              {"overlay/overlaytest"},
	"github.com/invopop/jsonschema":   {},
}

// Longest file that is welcome, and longest that is let through (lines).
const (
	longFile = 300
	maxFile  = 500
)

type source struct {
	path string // relative to the root, with slashes
	dir  string
	file *ast.File
	text []byte
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources parses every Go file of the module. It walks the tree rather than asking
// `go list`, whose reads the test cache does not see.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "vendor" || d.Name() == "bin" || d.Name() == "build"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go"):
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, p, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		p = filepath.ToSlash(p)
		out = append(out, source{path: p, dir: path.Dir(p), file: f, text: text})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// line returns the index of dir's line in layers, or -1.
func line(dir string) int {
	for i, names := range layers {
		for _, name := range names {
			if dir == name || strings.HasPrefix(dir, name+"/") {
				return i
			}
		}
	}
	return -1
}

func inside(dir string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return dir == r || strings.HasPrefix(dir, r+"/") })
}

// testOnly are folders that hold tests and data but no package of the product.
var testOnly = []string{".", "bench", "deploy", "e2e"}

func TestImportsPointDownwards(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if inside(s.dir, testOnly[1:]) || s.dir == "." {
			continue
		}
		at := line(s.dir)
		if at < 0 {
			t.Errorf("%s: package %s is not in the list of layers_test.go", s.path, s.dir)
			continue
		}
		seen[s.dir] = true
		for _, imp := range s.file.Imports {
			name := strings.Trim(imp.Path.Value, `"`)
			if ours, ok := strings.CutPrefix(name, module+"/"); ok {
				checkOurs(t, s, at, ours)
			} else if strings.Contains(strings.SplitN(name, "/", 2)[0], ".") {
				checkTheirs(t, s, at, name)
			}
		}
	}
	if len(seen) == 0 {
		t.Fatal("no package was read: the walk is broken")
	}
}

func checkOurs(t *testing.T, s source, at int, ours string) {
	t.Helper()
	if s.isTest() && ours == "internal/testbox" {
		return
	}
	to := line(ours)
	family := strings.HasPrefix(s.dir, ours+"/") || strings.HasPrefix(ours, s.dir+"/") && s.isTest() || ours == s.dir ||
		inside(s.dir, []string{"overlay"}) && inside(ours, []string{"overlay"})
	if to < 0 || to >= at && !family {
		t.Errorf("%s (line %d) imports %s (line %d): only lower lines may be imported", s.path, at, ours, to)
	}
}

func checkTheirs(t *testing.T, s source, at int, name string) {
	t.Helper()
	if s.isTest() {
		return
	}
	if leaves := line("internal/wire"); at <= leaves && !strings.HasPrefix(name, "golang.org/x/sys/") {
		if mod, ok := restricted(name); !ok || !inside(s.dir, onlyIn[mod]) {
			t.Errorf("%s imports %s: a leaf imports the standard library and x/sys only", s.path, name)
		}
		return
	}
	if mod, ok := restricted(name); ok && !inside(s.dir, onlyIn[mod]) {
		t.Errorf("%s imports %s, which only %v may", s.path, name, onlyIn[mod])
	}
}

// restricted returns the module of onlyIn that the import path name belongs to.
func restricted(name string) (string, bool) {
	for mod := range onlyIn {
		if name == mod || strings.HasPrefix(name, mod+"/") {
			return mod, true
		}
	}
	return "", false
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	comments, dirs := map[string]int{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		dirs[s.dir] = true
		if s.file.Doc != nil {
			comments[s.dir]++
		}
	}
	for dir := range dirs {
		if comments[dir] != 1 {
			t.Errorf("package %s has %d package comments, want exactly 1", dir, comments[dir])
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		switch n := bytes.Count(s.text, []byte("\n")); {
		case n > maxFile:
			t.Errorf("%s has %d lines, more than %d: it is two things", s.path, n, maxFile)
		case n > longFile:
			t.Logf("%s has %d lines, more than %d", s.path, n, longFile)
		}
	}
}

// A promise to do something later names the issue that asks for it.
var (
	promise = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	issued  = regexp.MustCompile(`#[0-9]+`)
)

func TestPromisesNameAnIssue(t *testing.T) {
	for _, s := range sources(t) {
		for i, l := range strings.Split(string(s.text), "\n") {
			if promise.MatchString(l) && !issued.MatchString(l) && !strings.Contains(l, `"`) {
				t.Errorf("%s:%d: %s names no issue", s.path, i+1, strings.TrimSpace(l))
			}
		}
	}
}

func TestEveryDependencyHasARow(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for l := range strings.Lines(string(mod)) {
		f := strings.Fields(l)
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") && !strings.Contains(l, "// indirect") {
			required[f[0]] = true
		}
	}
	rows := map[string]bool{}
	for l := range strings.Lines(string(table)) {
		if f := strings.Split(l, "|"); len(f) > 5 && strings.Contains(f[1], "/") {
			rows[strings.TrimSpace(f[1])] = true
		}
	}
	for m := range required {
		if !rows[m] {
			t.Errorf("go.mod requires %s, which has no row in docs/dependencies.md", m)
		}
	}
	for m := range rows {
		if !required[m] {
			t.Errorf("docs/dependencies.md has a row for %s, which go.mod does not require", m)
		}
	}
	if len(required) == 0 {
		t.Error("no requirement was read: the parser is broken")
	}
}

// claim is a test as the documents name it: `dir.TestName`.
var claim = regexp.MustCompile("`([a-z/]+)\\.(Test[A-Za-z0-9]+)`")

func TestClaimsNameTests(t *testing.T) {
	doc, err := os.ReadFile("docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	for _, s := range sources(t) {
		for _, m := range function.FindAllSubmatch(s.text, -1) {
			there[s.dir+"."+string(m[1])] = true
		}
	}
	named := claim.FindAllSubmatch(doc, -1)
	for _, m := range named {
		if name := string(m[1]) + "." + string(m[2]); !there[name] {
			t.Errorf("docs/threat-model.md names %s, which is not there", name)
		}
	}
	for l := range strings.Lines(string(doc)) {
		row := strings.Split(l, "|")
		if len(row) == 4 && strings.Contains(l, "Test") != claim.MatchString(row[2]) {
			t.Errorf("docs/threat-model.md: no test in %q", strings.TrimSpace(l))
		}
	}
	if len(named) == 0 {
		t.Error("no test is named: the pattern is broken")
	}
}
