package glob

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func names(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"**/.env", ".env", true},
		{"**/.env", "a/b/.env", true},
		{"**/.env", "a/.env/below", true},
		{"**/.env", "a/.envrc", false},
		{"*.pem", "k.pem", true},
		{"*.pem", "a/k.pem", false},
		{"**/*.pem", "a/b/.pem", true},
		{".config/*/token*", ".config/gh/tokens", true},
		{".config/*/token*", ".config/gh/x/tokens", false},
		{"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z", true},
		{"a/**/z", "b/z", false},
		{"a/**", "a", false},
		{"a/**", "a/b", true},
		{"{a,b{c,d}}/x", "bd/x", true},
		{"{a,b{c,d}}/x", "b/x", false},
		{`\{a\}`, "{a}", true},
		{"[!a-c]x", "dx", true},
		{"[!a-c]x", "bx", false},
		{"f[]]", "f]", true},
		{"**/**/q", "q", true},
		{"x?", "x\xff", true},
	} {
		list, err := Parse(c.pattern)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.pattern, err)
			continue
		}
		got := false
		for _, p := range list {
			got = got || p.Matches(names(c.path)...)
		}
		if got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                              "no name",
		"/":                             "no name",
		"a/../b":                        "no names",
		"a**":                           "whole names",
		"[a":                            "does not end",
		`a\`:                            "does not end",
		"{a,b":                          "does not end",
		"a}":                            "did not begin",
		strings.Repeat("{a,b}", 9):      "more than 256 patterns",
		strings.Repeat("a/", 300) + "a": "more than 256 names",
	} {
		if _, err := Parse(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.20q): %v, want %q", pattern, err, want)
		}
	}
}

// TestBelow: a pattern below a directory means what it means from above.
func TestBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "**", "a*", "?"}), 1, 6).Draw(t, "pattern"), "/")
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 6).Draw(t, "path")
		cut := rapid.IntRange(0, len(path)-1).Draw(t, "cut")
		list, err := Parse(pattern)
		if err != nil {
			t.Fatal(err)
		}
		p := list[0]
		rest, whole := p.Below(path[:cut]...)
		for _, r := range rest {
			whole = whole || r.Matches(path[cut:]...)
		}
		if want := p.Matches(path...); whole != want {
			t.Fatalf("%s below %v for %v: %v, want %v (%v)", p, path[:cut], path[cut:], whole, want, rest)
		}
	})
}

// FuzzMatch compares with filepath.Match, which knows the same elements.
func FuzzMatch(f *testing.F) {
	f.Add("*.pem", "a.pem")
	f.Add("[a-c]?\\*", "ax*")
	f.Add("*a*b*", "xxaxxbxx")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		for _, b := range []byte(pattern + name) {
			if b >= 0x80 || b == '/' || b == 0 || b == '^' || b == '!' || b == '-' || b == '[' || b == ']' {
				return
			}
		}
		got, err := match(pattern, name)
		want, werr := filepath.Match(pattern, name)
		if werr == nil && err == nil && got != want {
			t.Errorf("match %q %q = %v, want %v", pattern, name, got, want)
		}
	})
}

// TestMatchIsQuick: no pattern takes exponential time.
func TestMatchIsQuick(t *testing.T) {
	if !Match("*a*a*a*a*b", strings.Repeat("a", 200)+"b") || Match("*a*a*a*a*b", strings.Repeat("a", 255)) {
		t.Error("stars are matched wrong")
	}
}

func TestLiteralMeansItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := strings.ReplaceAll(rapid.StringN(1, 8, 255).Draw(t, "name"), "/", "_")
		if !Literal(name).Matches(name) {
			t.Fatalf("%q does not match itself", name)
		}
	})
}
