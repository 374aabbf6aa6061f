package masks

import (
	"errors"
	"fmt"
	"path"
)

// Check refuses the rules that are wrong whatever the host's tree looks like. Make
// calls it first; a command that only looks at a configuration calls it alone, and
// may leave Project empty.
func Check(in Input) error {
	errs := checkPlaces(in)
	for _, r := range in.Rules {
		errs = append(errs, checkRule(in, r))
		if r.Class == CarveOut && r.Target == "" {
			errs = append(errs, checkContradiction(in, r))
		}
	}
	return errors.Join(errs...)
}

// checkPlaces looks at HOME, project and sbxd's own directories against each other.
func checkPlaces(in Input) []error {
	if !clean(in.Home) {
		return []error{fmt.Errorf("HOME is %q, which is not a directory below / by its real path", in.Home)}
	}
	if in.Project != "" && !clean(in.Project) {
		return []error{fmt.Errorf("the project is %q, which is not a directory below / by its real path", in.Project)}
	}
	var errs []error
	if in.Project != "" && below(in.Home, in.Project) {
		errs = append(errs, fmt.Errorf("the project %s lies above HOME %s; choose a directory inside HOME or beside it", in.Project, in.Home))
	}
	for _, r := range builtinRules(in.Home) {
		if Within(in.Project, r.Path) {
			errs = append(errs, fmt.Errorf("the project %s lies in %s, which is hidden (%s, built-in); choose another directory", in.Project, r.Path, r.Why))
			break
		}
	}
	for _, d := range in.StateDirs {
		for _, p := range in.views() {
			if Within(p, d) {
				errs = append(errs, fmt.Errorf("%s lies in sbxd's own directory %s; choose another one of the two", p, d))
			}
		}
	}
	return errs
}

// checkRule looks at one rule by its text.
func checkRule(in Input, r Rule) error {
	refuse := func(format string, a ...any) error {
		return &RuleError{Rule: r, Reason: because(format, a...)}
	}
	if !clean(r.Path) && !(r.Path == "/" && r.Pattern != nil) || (r.Target != "" && !clean(r.Target)) {
		return refuse("is not an absolute path without . and ..")
	}
	if r.Pattern != nil {
		return checkPattern(in, r, refuse)
	}
	switch r.Class {
	case Mask, FinalMask, RuntimeMask:
		return checkMask(in, r, refuse)
	case ReadOnlyInput, RuntimeInput:
		return checkInput(in, r, refuse)
	case CarveOut:
		return checkCarve(in, r, refuse)
	}
	return refuse("is of no known class")
}

type refusal func(format string, a ...any) error

func checkMask(in Input, r Rule, refuse refusal) error {
	for _, v := range in.views() {
		if Within(v, r.Path) {
			return refuse("would hide %s itself; name what is inside it", in.name(v))
		}
	}
	for _, b := range in.Base {
		if Within(b, r.Path) {
			return refuse("would hide %s, without which no program runs; name what is inside it", b)
		}
	}
	return nil
}

func checkInput(in Input, r Rule, refuse refusal) error {
	if why := forbiddenPlace(in, r.Path); why != "" {
		return refuse("%s; name what is needed inside it", why)
	}
	if r.Target != "" {
		for _, v := range in.views() {
			if Within(v, r.Target) {
				return refuse("would show %s, which is %s or above it", r.Target, in.name(v))
			}
		}
	}
	return nil
}

func checkCarve(in Input, r Rule, refuse refusal) error {
	if why := forbiddenPlace(in, r.Path); why != "" {
		return refuse("%s; carve out what is needed inside it", why)
	}
	for _, b := range in.Base {
		if overlap(r.Path, b) {
			return refuse("would make %s writable, which is read-only in every session", b)
		}
	}
	if r.Target != "" {
		for _, d := range in.StateDirs {
			if below(r.Target, d) {
				return nil
			}
		}
		return refuse("would show %s, which is not in a directory of sbxd's own", r.Target)
	}
	for _, c := range builtinRules(in.Home) {
		if Within(c.Path, r.Path) {
			return refuse("would expose %s (%s, built-in); carve out something else, or give the agent a directory of its own with [agents.NAME]", c.Path, c.Why)
		}
	}
	for _, o := range obeyed {
		if p := expand(o, in.Home); overlap(r.Path, p) {
			return refuse("would let a session write %s, which programs of the host run or obey", p)
		}
	}
	if git := in.Project + "/.git"; in.Project != "" && overlap(r.Path, git) {
		return refuse("would let a session write %s past the landing", git)
	}
	return nil
}

// checkContradiction refuses a carve-out of exactly what a mask hides.
func checkContradiction(in Input, carve Rule) error {
	for _, m := range in.Rules {
		if m.Class == Mask && m.Path == carve.Path {
			return &RuleError{Rule: carve, Reason: because("is hidden by the mask of %s; remove one of the two", m.From)}
		}
	}
	return nil
}

// special are trees that every session has its own of, and the kernel's.
var special = []string{"/dev", "/proc", "/sys"}

// scratch are directories of which every session has its own.
var scratch = []string{"/run/user", "/tmp", "/var/run/user", "/var/tmp"}

// forbiddenPlace says why nothing of the host may be laid over p, or "".
func forbiddenPlace(in Input, p string) string {
	for _, v := range in.views() {
		if Within(v, p) {
			return "is " + in.name(v) + " or above it"
		}
	}
	for _, d := range in.StateDirs {
		if Within(p, d) {
			return "lies in sbxd's own " + d
		}
		if Within(d, p) {
			return "holds sbxd's own " + d
		}
	}
	for _, s := range special {
		if overlap(p, s) {
			return "is part of the kernel's own " + s
		}
	}
	for _, s := range scratch {
		if Within(s, p) {
			return "would put the host's " + s + " in place of the session's"
		}
	}
	if path.Dir(p) == "/run/user" || path.Dir(p) == "/var/run/user" {
		return "would put the host's " + p + " in place of the session's"
	}
	return ""
}

// views are the roots that are copy-on-write views, HOME first.
func (in Input) views() []string {
	if in.Project == "" {
		return append([]string{in.Home}, in.Views...)
	}
	return append([]string{in.Home, in.Project}, in.Views...)
}

func (in Input) name(view string) string {
	switch view {
	case in.Home:
		return "HOME (" + view + ")"
	case in.Project:
		return "the project (" + view + ")"
	}
	return "the view of " + view
}

func clean(p string) bool { return path.IsAbs(p) && path.Clean(p) == p && p != "/" }

func below(p, root string) bool { return p != root && Within(p, root) }

func overlap(a, b string) bool { return Within(a, b) || Within(b, a) }
