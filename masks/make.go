package masks

import (
	"errors"
	"slices"
)

// Make turns the built-in table, sbxd's own directories and in.Rules into a plan for
// the tree that host shows. All faults are joined in the error; each names the path,
// the rule and what to do.
func Make(in Input, host Host) (Plan, error) {
	if err := Check(in); err != nil {
		return Plan{}, err
	}
	if in.Project == "" {
		return Plan{}, errors.New("make a plan: there is no project")
	}
	p := &planner{in: in, t: newTree(in, host), covers: map[string]*cover{}, above: map[string]bool{}, warned: map[string]bool{}}
	p.rules = append(builtinRules(in.Home), p.patterns(in.Rules)...)
	p.rules = append(p.rules, p.own()...)
	for _, r := range p.rules {
		for dir := parent(r.Path); dir != "/" && !p.above[dir]; dir = parent(dir) {
			p.above[dir] = true
		}
	}
	p.findNested()
	for _, do := range []func(Rule){p.addInput, p.addCarve, p.addCover, p.addRuntime} {
		for _, r := range p.rules {
			do(r)
		}
		if err := errors.Join(p.errs...); err != nil {
			return Plan{}, err
		}
	}
	p.checkReach()
	p.addSiblings()
	p.settle()
	p.reduce()
	p.findAliases()
	if err := errors.Join(p.errs...); err != nil {
		return Plan{}, err
	}
	return p.emit(), nil
}

// planner collects what the rules come to before it is put in order.
type planner struct {
	in    Input
	t     *tree
	rules []Rule
	above map[string]bool // directories that hold the path of a rule

	nested  []*showing          // the host's mounts below a view
	inputs  []*showing          // read-only inputs
	carves  []*showing          // writable carve-outs
	runtime []*showing          // runtime inputs
	covers  map[string]*cover   // masks and final masks, by canonical path
	all     []*cover            // what covers held when it was complete, outer before inner
	gone    map[string]*cover   // covers that a carve-out of sbxd's own replaces
	inside  map[string][]string // cover → paths of later mountpoints in it

	plan   Plan
	errs   []error
	warned map[string]bool
}

// showing is a piece of the host that is laid over the session's tree.
type showing struct {
	rule   Rule
	path   string   // in the session
	source string   // on the host
	info   Info     // of source
	view   bool     // has to be a view of its own (ViewRO)
	via    []string // links that lead to path
}

// cover is a path that is hidden.
type cover struct {
	path  string
	kind  Kind
	info  Info
	phase Class
	rule  Rule
	via   []string // links that lead to path
}

func (c *cover) link() bool    { return c.info.Type == Symlink }
func (c *cover) missing() bool { return c.info.Type == Missing }

// own are the rules for sbxd's own directories, and for the directory that a landing
// may use in the project.
func (p *planner) own() []Rule {
	var out []Rule
	for _, d := range p.in.StateDirs {
		if p.inView(d) || p.inBase(d) {
			out = append(out, Rule{Class: FinalMask, Path: d, Kind: KindDir, From: fromBuiltin, Why: "sbxd's own"})
		}
	}
	if info, err := p.t.lstat(p.in.Project + "/.sbxd"); err == nil && info.Type != Missing {
		out = append(out, Rule{Class: FinalMask, Path: p.in.Project + "/.sbxd", Kind: KindDir, From: fromBuiltin, Why: "files of a landing"})
	}
	return out
}

func (p *planner) refuse(r Rule, format string, a ...any) {
	p.errs = append(p.errs, &RuleError{Rule: r, Reason: because(format, a...)})
}

func (p *planner) warn(r Rule, format string, a ...any) {
	line := (&RuleError{Rule: r, Reason: because(format, a...)}).Error()
	if !p.warned[line] {
		p.warned[line] = true
		p.plan.Warnings = append(p.plan.Warnings, line)
	}
}

// recheck applies the textual checks to the real path of a rule.
func (p *planner) recheck(r Rule, real string) bool {
	if real == r.Path {
		return true
	}
	r2 := r
	r2.Path = real
	if err := checkRule(p.in, r2); err != nil {
		p.refuse(r, "is really %s; %s", real, err)
		return false
	}
	return true
}

// findNested lists the host's mounts below a view, outermost only. Sessions see them
// read-only, as they are; a masked path inside one makes it a view.
func (p *planner) findNested() {
	for _, m := range p.in.Mounts {
		if m.Hidden || !p.inView(m.Point) || slices.Contains(p.in.views(), m.Point) {
			continue
		}
		r := Rule{Class: ReadOnlyInput, Path: m.Point, Kind: KindDir, From: "mount table", Why: "a mount below a view"}
		p.nested = append(p.nested, &showing{rule: r, path: m.Point, source: m.Point, view: p.hasEnds(m.Point)})
	}
	slices.SortFunc(p.nested, byPath)
	p.nested = slices.CompactFunc(p.nested, func(a, b *showing) bool { return Within(b.path, a.path) })
}

func byPath(a, b *showing) int { return comparePaths(a.path, b.path) }

// inView reports whether path lies below the root of a view.
func (p *planner) inView(path string) bool {
	return slices.ContainsFunc(p.in.views(), func(v string) bool { return below(path, v) })
}

func (p *planner) inBase(path string) bool {
	return slices.ContainsFunc(p.in.Base, func(b string) bool { return below(path, b) })
}

// shown reports whether path lies in one of list.
func shown(list []*showing, path string) bool {
	return slices.ContainsFunc(list, func(s *showing) bool { return Within(path, s.path) })
}
