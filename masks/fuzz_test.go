package masks

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"~", "~/.ssh", "~//.ssh/.", "a/../b", "/x/*", `\*`, "//x", "~u/x", "$HOME", "\x00", "-- x", "/home/u/p/[x]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, in := range []Input{input(), {Home: "/h"}, {}} {
			p, kind, err := Parse(s, in)
			if err != nil {
				continue
			}
			if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || kind == KindFile {
				t.Fatalf("Parse(%q) = %q, %v", s, p, kind)
			}
		}
	})
}

// FuzzMake makes trees and rules of a few names and looks for a plan that breaks its
// promises: what a mask names is hidden, nothing is writable but carve-outs, the order
// holds, and the same input gives the same plan.
func FuzzMake(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte("\x01\x02\x03link\x10\x20\x30rules"))
	f.Add([]byte{8, 255, 3, 17, 99, 4, 200, 33, 5, 6, 77, 12, 80, 41, 9, 1, 64, 128, 32})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			return
		}
		checkPlan(t, data)
	})
}

// TestMakeAtRandom is FuzzMake with inputs of its own.
func TestMakeAtRandom(t *testing.T) {
	made := 0
	for i := range uint64(200) {
		r := rand.New(rand.NewPCG(i, 1))
		data := make([]byte, 60)
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		if checkPlan(t, data) {
			made++
		}
	}
	if made < 50 {
		t.Errorf("only %d plans were made", made)
	}
}

// checkPlan reports whether data gives a plan; a bad one fails the test.
func checkPlan(t *testing.T, data []byte) bool {
	h, rules := build(t, data)
	in := input(rules...)
	plan, err := Make(in, h)
	if err != nil {
		return false
	}
	for i, s := range plan.Steps {
		if i > 0 && plan.Steps[i-1].Phase > s.Phase {
			t.Fatalf("phases out of order:\n%s", print(plan, false))
		}
		if s.Op == BindRW && !slices.ContainsFunc(rules, func(r Rule) bool { return r.Class == CarveOut && r.Path == s.Path }) {
			t.Fatalf("%s is writable:\n%s", s.Path, print(plan, false))
		}
		for _, r := range builtinRules(in.Home) {
			if s.Op == BindRW && Within(r.Path, s.Path) {
				t.Fatalf("%s is exposed:\n%s", r.Path, print(plan, false))
			}
		}
	}
	for _, r := range append(builtinRules(in.Home), rules...) {
		if r.Class != Mask && r.Class != FinalMask {
			continue
		}
		e := plan.Explain(r.Path)
		if e.Verdict != Hidden && e.Verdict != Absent && !excused(plan, r) {
			t.Fatalf("%s is %s (real %s):\n%s", r.Path, e.Verdict, e.Real, print(plan, false))
		}
	}
	leaks(t, plan, in, h)
	again, err := Make(in, h)
	if err != nil || print(again, true) != print(plan, true) {
		t.Fatalf("a second plan differs: %v", err)
	}
	return true
}

// leaks walks everything that a session sees and fails when an inode that a rule hides
// is among it. It knows nothing of how the plan was made.
func leaks(t *testing.T, plan Plan, in Input, h *fakeHost) {
	secret := map[FileID]Rule{}
	for _, r := range append(builtinRules(in.Home), in.Rules...) {
		if r.Class != Mask && r.Class != FinalMask {
			continue
		}
		real, ok := h.real(r.Path)
		if !ok || slices.ContainsFunc(in.views(), func(v string) bool { return Within(v, real) }) {
			continue // nothing there, or a link to what the session is about
		}
		for p, e := range h.entries {
			carved := slices.ContainsFunc(in.Rules, func(c Rule) bool {
				return c.Class == CarveOut && Within(p, c.Path) && below(c.Path, real) && r.Class == Mask
			})
			if Within(p, real) && e.info.Type != Dir && !carved {
				secret[e.info.ID] = r
			}
		}
	}
	for p, e := range h.entries {
		for _, at := range plan.places(p) {
			if r, ok := secret[e.info.ID]; ok && plan.Explain(at).Verdict != Hidden && !excused(plan, r) {
				t.Fatalf("%s, hidden by %v, is seen at %s:\n%v\n%s", p, r, at, h.entries, print(plan, false))
			}
		}
	}
}

// real follows every link of path.
func (h *fakeHost) real(p string) (string, bool) {
	at, err := newTree(Input{Home: "/"}, h).resolve(p, true)
	return at.path, err == nil && !at.missing()
}

// places lists where in a session the host's path shows, if nothing hides it.
func (p Plan) places(path string) []string {
	var out []string
	if slices.ContainsFunc(slices.Concat(p.in.views(), p.in.Base), func(v string) bool { return Within(path, v) }) {
		out = append(out, path)
	}
	for _, s := range p.Steps {
		if s.Source != "" && Within(path, s.Source) {
			out = append(out, s.Path+path[len(s.Source):])
		}
	}
	return out
}

// excused reports whether the plan says itself that a rule hides nothing.
func excused(p Plan, r Rule) bool {
	for _, w := range p.Warnings {
		if strings.Contains(w, r.Path+" ("+r.From+")") && strings.Contains(w, "nothing: ") {
			return true
		}
	}
	return false
}

// build turns bytes into a tree below /home/u and some rules about it.
func build(t *testing.T, data []byte) (*fakeHost, []Rule) {
	names := []string{"a", "b", ".ssh", ".config", "gh", "p", ".netrc", "c"}
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	var known []string
	where := func() string {
		if n := next(); n%2 == 0 && len(known) > 0 {
			return known[n/2%len(known)]
		}
		p := []string{"/home/u", "/home/u/p", "/srv", "/home/u"}[next()%4]
		for range 1 + next()%3 {
			p += "/" + names[next()%len(names)]
		}
		return p
	}
	lines := []string{"d /home/u/p", "d /srv"}
	used := map[string]bool{"/home/u/p": true}
	for range next() % 8 {
		p := where()
		if used[p] || slices.ContainsFunc(lines, func(l string) bool { return Within(p, strings.Fields(l)[1]) && l[0] != 'd' }) ||
			slices.ContainsFunc(lines, func(l string) bool { return Within(strings.Fields(l)[1], p) }) {
			continue
		}
		used[p] = true
		known = append(known, p)
		switch next() % 5 {
		case 0, 1:
			lines = append(lines, "d "+p)
		case 2:
			lines = append(lines, "f "+p)
		case 3:
			lines = append(lines, "l "+p+" -> "+where())
		case 4:
			lines = append(lines, "l "+p+" -> "+names[next()%len(names)])
		}
	}
	var rules []Rule
	for range next() % 6 {
		class := []Class{Mask, Mask, FinalMask, CarveOut, ReadOnlyInput, Mask}[next()%6]
		r := Rule{Class: class, Path: where(), Kind: Kind(next() % 3), From: "test", Optional: next()%2 == 0}
		rules = append(rules, r)
		if n := next(); class == CarveOut && n%2 == 0 { // something hidden inside it
			for _, p := range known {
				if below(p, r.Path) {
					rules = append(rules, Rule{Class: []Class{Mask, FinalMask}[n/2%2], Path: p, From: "test"})
				}
			}
		}
	}
	return host(t, lines...), rules
}
