package masks

import (
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/glob"
)

func patternRule(t *testing.T, root, text string) Rule {
	t.Helper()
	list, err := glob.Parse(text)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return Rule{Class: Mask, Path: root, Pattern: list[0], From: "--mask"}
}

func TestPatternsHoldInEachView(t *testing.T) {
	in := input()
	in.Rules = []Rule{patternRule(t, in.Home, "**/.env"), patternRule(t, in.Project, "k/*.pem"), patternRule(t, "/", "**/id")}
	plan, err := Make(in, host(t, "d "+in.Project))
	if err != nil {
		t.Fatal(err)
	}
	for path, hidden := range map[string]bool{
		in.Home + "/.env": true, in.Home + "/a/.env/x": true, in.Project + "/.env": true, in.Project + "/a/b/.env": true,
		in.Project + "/k/a.pem": true, in.Project + "/a.pem": false, in.Home + "/k/a.pem": false,
		in.Project + "/id": true, in.Home + "/x/id": true, in.Home + "/idx": false,
	} {
		if e := plan.Explain(path); (e.Verdict == Hidden) != hidden {
			t.Errorf("%s is %s", path, e.Verdict)
		}
	}
}

func TestPatternsThatCannotHoldAreRefused(t *testing.T) {
	in := input()
	home, project := in.Home, in.Project
	for _, c := range []struct {
		root, text, want string
		input            string
	}{
		{"/etc", "*.key", "a pattern holds only there", ""},
		{"/", "*", "would hide", ""},
		{home, "*", "would hide", ""},
		{home, "**/.env", "reaches into the read-only", home + "/other"},
		{project, "**/.env", "", home + "/other"},
		{project, "**/.env", "reaches into the read-only", project + "/vendor"},
	} {
		in := input()
		in.Rules = []Rule{patternRule(t, c.root, c.text)}
		tree := []string{"d " + in.Project}
		if c.input != "" {
			in.Rules = append(in.Rules, rule(ReadOnlyInput, c.input))
			tree = append(tree, "d "+c.input)
		}
		_, err := Make(in, host(t, tree...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s below %s: %v, want %q", c.text, c.root, err, c.want)
		}
	}
	in.Rules = []Rule{{Class: FinalMask, Path: home, Pattern: glob.Pattern{"x*"}, From: "--final-mask"}}
	if _, err := Make(in, host(t, "d "+in.Project)); err == nil {
		t.Error("a pattern as final mask is taken")
	}
}
