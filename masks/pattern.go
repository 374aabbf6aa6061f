package masks

import (
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/glob"
	"github.com/sbxd/sbxd/internal/hostpath"
)

// Text is what r is about, for people: its path or pattern.
func (r Rule) Text() string {
	if r.Pattern == nil {
		return r.Path
	}
	return strings.TrimSuffix(r.Path, "/") + "/" + r.Pattern.String()
}

// checkPattern refuses a pattern where nothing can hold it.
func checkPattern(in Input, r Rule, refuse refusal) error {
	if r.Class != Mask {
		return refuse("is a pattern, and only a mask can be one")
	}
	if in.Project == "" {
		return nil
	}
	holds := false
	for _, v := range in.views() {
		list, whole := inView(r, v)
		if whole {
			return refuse("would hide %s itself; narrow it", in.name(v))
		}
		holds = holds || len(list) > 0
	}
	if !holds {
		return refuse("matches nothing in HOME or the project, and a pattern holds only there; name the path")
	}
	return nil
}

// patterns takes the patterns out of rules, and turns them into what each view hides.
func (p *planner) patterns(rules []Rule) []Rule {
	var rest []Rule
	for _, r := range rules {
		if r.Pattern == nil {
			rest = append(rest, r)
			continue
		}
		for _, v := range p.in.views() {
			list, _ := inView(r, v)
			for _, g := range list {
				p.plan.Patterns = append(p.plan.Patterns, ViewPattern{View: v, Pattern: g, Rule: r})
			}
		}
	}
	return rest
}

// checkReach refuses a pattern that reaches into what is laid over a view: it holds in
// the view alone. A carve-out is meant to show what it shows.
func (p *planner) checkReach() {
	for _, h := range p.plan.Patterns {
		for _, s := range slices.Concat(p.inputs, p.nested) {
			if !below(s.path, h.View) {
				continue
			}
			if list, whole := h.Pattern.Below(split(hostpath.Rel(s.path, h.View))...); len(list) > 0 && !whole {
				p.refuse(h.Rule, "reaches into the read-only %s, where no pattern holds; narrow it, or leave the other out", s.path)
			}
		}
	}
}

// hiddenBy returns the pattern that hides path, or nil.
func (p Plan) hiddenBy(path string) *ViewPattern {
	view := ""
	for _, v := range p.in.views() {
		if below(path, v) && len(v) > len(view) {
			view = v
		}
	}
	for i, h := range p.Patterns {
		if h.View == view && h.Pattern.Matches(split(hostpath.Rel(path, view))...) {
			return &p.Patterns[i]
		}
	}
	return nil
}

func split(rel string) []string { return strings.Split(rel, "/") }

// inView is what the pattern of r means below the view v.
func inView(r Rule, v string) (list []glob.Pattern, whole bool) {
	switch {
	case Within(r.Path, v):
		names := split(hostpath.Rel(r.Path, v))
		if r.Path == v {
			return []glob.Pattern{r.Pattern}, false
		}
		return []glob.Pattern{append(glob.Literal(names...), r.Pattern...)}, false
	case Within(v, r.Path):
		return r.Pattern.Below(split(hostpath.Rel(v, r.Path))...)
	}
	return nil, false
}
