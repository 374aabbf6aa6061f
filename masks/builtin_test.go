package masks

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestBuiltinTable(t *testing.T) {
	rows := Builtin()
	if len(rows) < 120 {
		t.Errorf("%d rows, want at least 120", len(rows))
	}
	if !slices.IsSortedFunc(rows, func(a, b Credential) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("the table is not sorted by path")
	}
	seen := map[string]bool{}
	for _, c := range rows {
		if seen[c.Path] {
			t.Errorf("%s is there twice", c.Path)
		}
		seen[c.Path] = true
		if got, kind, err := Parse(c.Path, Input{Home: "/h"}); err != nil || got != "/h"+c.Path[1:] || kind != KindAny {
			t.Errorf("%s is not a clean path below ~: %q, %v", c.Path, got, err)
		}
		if c.Kind != KindFile && c.Kind != KindDir {
			t.Errorf("%s is neither file nor directory", c.Path)
		}
		if c.Why == "" {
			t.Errorf("%s says nothing of what is in it", c.Path)
		}
		if u, err := url.Parse(c.Source); err != nil || u.Scheme != "https" || !strings.Contains(u.Host, ".") || u.Path == "" {
			t.Errorf("%s has no source: %q", c.Path, c.Source)
		}
	}
}

func TestBuiltinLeavesWhatBuildsNeed(t *testing.T) {
	plan := mustMake(t, input(), host(t, "d /home/u/p"))
	for _, p := range []string{
		"/home/u", "/home/u/.gitconfig", "/home/u/.config/git/config", "/home/u/.cargo/registry", "/home/u/.npm",
		"/home/u/.cache/go-build", "/home/u/.m2/repository", "/home/u/.terraform.d/plugins", "/home/u/go", "/home/u/p/.env",
		"/home/u/p/.git", "/home/u/.gradle/caches", "/home/u/.local/share/uv/python",
	} {
		if e := plan.Explain(p); e.Verdict != Copied {
			t.Errorf("%s is %s (%s), want copied", p, e.Verdict, e.Rule.Path)
		}
	}
}

// A step is a mount, and every mount costs at each start.
func TestBuiltinStepsAreFew(t *testing.T) {
	plan := mustMake(t, input(), host(t, "d /home/u/p"))
	if n := len(plan.Steps); n >= 100 {
		t.Errorf("%d steps on a fresh HOME, want fewer than 100", n)
	}
	golden(t, "fresh", print(plan, true))
}

func TestObeyedTable(t *testing.T) {
	if !slices.IsSorted(obeyed) {
		t.Error("the table is not sorted")
	}
	if n := len(slices.Compact(slices.Clone(obeyed))); n != len(obeyed) {
		t.Error("the table holds a path twice")
	}
	for _, o := range obeyed {
		if !strings.HasPrefix(o, "~/") {
			t.Errorf("%s is not below ~", o)
		}
		err := Check(input(rule(CarveOut, expand(o, testHome)+"/x")))
		if err == nil {
			t.Errorf("a carve-out inside %s is let through", o)
		}
	}
}
