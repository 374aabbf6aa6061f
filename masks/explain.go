package masks

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/hostpath"
)

// Verdict is what a session can do with a path.
type Verdict string

// The verdicts.
const (
	Hidden   Verdict = "hidden"    // nothing of it can be read or made
	ReadOnly Verdict = "read-only" // the host's, live
	Writable Verdict = "writable"  // the host's, really written
	Own      Verdict = "own"       // a directory of sbxd's own stands in its place, writable
	Copied   Verdict = "copied"    // copy-on-write: readable, changes stay in the session
	Absent   Verdict = "absent"    // not part of a session at all
)

// Explanation says what a session sees at a path, and why.
type Explanation struct {
	Path    string  // as asked
	Real    string  // where links lead, if elsewhere
	Verdict Verdict // of Real
	Rule    Rule    // the one that decides; zero for Copied and Absent
	// Chain are the steps that touch the path, in the order in which they are laid.
	Chain []Step
	// Replaced is the mask whose place a directory of sbxd's own has taken.
	Replaced *Rule
}

// Explain tells what a session with this plan sees at name, an absolute path.
func (p Plan) Explain(name string) Explanation {
	e := Explanation{Path: path.Clean(name), Verdict: Absent}
	e.Real = p.follow(e.Path)
	switch {
	case slices.ContainsFunc(p.in.views(), func(v string) bool { return Within(e.Real, v) }):
		e.Verdict = Copied
	case slices.ContainsFunc(p.in.Base, func(b string) bool { return Within(e.Real, b) }):
		e.Verdict = ReadOnly
	}
	if h := p.hiddenBy(e.Real); h != nil {
		e.Verdict, e.Rule = Hidden, h.Rule
	}
	for _, s := range p.Steps {
		if s.Op == Pin || !Within(e.Real, s.Path) {
			continue
		}
		e.Chain = append(e.Chain, s)
		e.Verdict, e.Rule = s.verdict(), s.Rule
	}
	if c := p.gone[e.Real]; c != nil && e.Verdict == Own {
		e.Replaced = &c.rule
	}
	return e
}

func (s Step) verdict() Verdict {
	switch {
	case s.Op == BindRO || s.Op == ViewRO:
		return ReadOnly
	case s.Op == BindRW && s.Rule.Target != "":
		return Own
	case s.Op == BindRW:
		return Writable
	}
	return Hidden
}

// follow leads name through the links that planning met. One that is itself hidden is
// not followed.
func (p Plan) follow(name string) string {
	spelled := []struct{ from, to string }{{p.in.HomeSpelled, p.in.Home}, {p.in.ProjectSpelled, p.in.Project}}
	for _, s := range spelled {
		if s.from != "" && Within(name, s.from) {
			name = s.to + strings.TrimPrefix(name, s.from)
			break
		}
	}
	cur, rest := "/", components(name)
	for hops := 0; len(rest) > 0 && hops <= maxLinks; {
		next := rest[0]
		rest = rest[1:]
		if next == ".." {
			cur = parent(cur)
			continue
		}
		cur = join(cur, next)
		text, ok := p.links[cur]
		if !ok || !p.seen(cur) || p.decide(cur).verdict() == Hidden {
			continue
		}
		hops++
		rest = append(components(text), rest...)
		if cur = parent(cur); path.IsAbs(text) {
			cur = "/"
		}
	}
	return path.Clean(join(cur, strings.Join(rest, "/"))) // rest: what is left after too many links
}

// seen reports whether a session has the link at path.
func (p Plan) seen(path string) bool {
	return slices.ContainsFunc(p.in.views(), func(v string) bool { return Within(path, v) }) ||
		slices.ContainsFunc(p.in.Base, func(b string) bool { return Within(path, b) }) ||
		slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Source != "" && Within(path, s.Path) }) ||
		slices.ContainsFunc(p.Links, func(l Link) bool { return l.Path == path })
}

// decide returns the last step that touches the real path, or a zero one.
func (p Plan) decide(real string) Step {
	for _, s := range slices.Backward(p.Steps) {
		if s.Op != Pin && Within(real, s.Path) {
			return s
		}
	}
	return Step{Op: BindRO}
}

// Masked reports whether path, absolute and below a view, is hidden: what a landing
// must never carry.
func (p Plan) Masked(path string) bool {
	return p.Explain(path).Verdict == Hidden
}

// Hidden lists the masked paths below root, relative to it and sorted: what a landing
// of root must never carry. A path that links lead to is listed under the name of its
// rule as well: the session may have put something else in the place of a link.
func (p Plan) Hidden(root string) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Op != Cover && s.Op != CoverLink {
			continue
		}
		for _, path := range []string{s.Path, s.Rule.Path} {
			if below(path, root) {
				out = append(out, hostpath.Rel(path, root))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
