package hostpath

import (
	"errors"
	"path"
	"strings"
	"testing"
)

var base = Base{
	Home: "/var/home/u", HomeSpelled: "/home/u",
	Project: "/var/home/u/sp ace/it's \"q\" --bind / *", ProjectSpelled: "/home/u/p",
}

func TestParse(t *testing.T) {
	home := Base{Home: "/var/home/u", HomeSpelled: "/home/u"}
	for _, c := range []struct {
		name, in string
		base     Base
		want     string
		dir      bool
	}{
		{"home", "~", home, "/var/home/u", false},
		{"below home", "~/.ssh", home, "/var/home/u/.ssh", false},
		// B172: every spelling is one path.
		{"trailing slash", "~/.ssh/", home, "/var/home/u/.ssh", true},
		{"trailing slashes", "~/.ssh//", home, "/var/home/u/.ssh", true},
		{"trailing dot", "~/.ssh/.", home, "/var/home/u/.ssh", true},
		{"doubled slash", "~//.ssh", home, "/var/home/u/.ssh", false},
		{"home as spelled", "/home/u/.ssh", home, "/var/home/u/.ssh", false},
		{"canonical home", "/var/home/u/./.ssh", home, "/var/home/u/.ssh", false},
		{"another user's prefix", "/home/user/.ssh", home, "/home/user/.ssh", false},
		// B068: any byte but NUL and slash is itself.
		{"project with odd bytes", "/var/home/u/sp ace/it's \"q\" --bind / */-- secret", base, "/var/home/u/sp ace/it's \"q\" --bind / */-- secret", false},
		{"project as spelled", "/home/u/p/.env", base, "/var/home/u/sp ace/it's \"q\" --bind / */.env", false},
		{"relative to the project", "conf/.env", base, "/var/home/u/sp ace/it's \"q\" --bind / */conf/.env", false},
		{"relative with dot", "./.env", base, "/var/home/u/sp ace/it's \"q\" --bind / */.env", false},
		{"leading dash", "/-- x", home, "/-- x", false},
		{"not UTF-8", "/a/\xff\xfe", home, "/a/\xff\xfe", false},
		{"newline, colon, comma, backslash", "/a\n:,\\b", home, "/a\n:,\\b", false},
		{"two backslashes", `/a\\b`, home, `/a\\b`, false},
		{"escaped meta", `/a/\[id\]/\*`, home, `/a/[id]/*`, false},
		{"backslash before an escaped meta", `/a/\\*`, home, `/a/\*`, false},
		{"4,000 bytes", "/" + strings.Repeat("x/", 2000), home, "/" + strings.TrimSuffix(strings.Repeat("x/", 2000), "/"), true},
		{"tilde inside", "/a/~/b", home, "/a/~/b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.in, c.base)
			if err != nil {
				t.Fatalf("Parse(%q): %v", c.in, err)
			}
			if got.Path != c.want || got.Dir != c.dir {
				t.Errorf("Parse(%q) = %+v, want %q, dir %v", c.in, got, c.want, c.dir)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	home := Base{Home: "/home/u"}
	for _, c := range []struct {
		name, in, say string
		base          Base
	}{
		// B170: nothing that could be read as relative to somewhere else.
		{"relative", ".ssh", "is relative", home},
		{"relative with dot", "./x", "is relative", home},
		{"two leading slashes", "//home/u/.ssh", "starts with //", home},
		{"empty", "", "is empty", home},
		{"root", "/", "root directory", home},
		{"root by dots", "/./.", "root directory", home},
		{"other user's home", "~root/.ssh", "~user", home},
		{"variable", "$HOME/.ssh", "variables", home},
		{"variable though relative is allowed", "${HOME}/.ssh", "variables", base},
		{"parent", "..", `".."`, base}, // B174
		{"parent inside", "~/x/../.ssh", `".."`, home},
		{"NUL", "/a\x00b", "NUL", home},
		{"no home", "~/x", "no home", Base{}},
		{"long name", "/" + strings.Repeat("x", MaxName+1), "no file can have", home},
		{"too long", "/" + strings.Repeat("x", MaxLen), "longer", home},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.in, c.base)
			if err == nil {
				t.Fatalf("Parse(%q) = %+v, want an error", c.in, got)
			}
			if !strings.Contains(err.Error(), c.say) {
				t.Errorf("Parse(%q): %v, want %q in it", c.in, err, c.say)
			}
			if errors.Is(err, ErrPattern) {
				t.Errorf("Parse(%q): is called a pattern", c.in)
			}
		})
	}
}

func TestParseRefusesPatterns(t *testing.T) {
	for _, in := range []string{"**/*.bin", "~/.ssh/id_*", "/a/?", "/a/[ab]", "/a/{b,c}", "~/*", "/home/u/p2/*"} {
		if got, err := Parse(in, base); !errors.Is(err, ErrPattern) {
			t.Errorf("Parse(%q) = %+v, %v; want ErrPattern", in, got, err)
		}
	}
	if _, err := Parse("**/.env", Base{}); !errors.Is(err, ErrPattern) {
		t.Errorf("a relative pattern without a project: %v", err)
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		p, root       string
		within, below bool
	}{
		{"/a/b", "/a", true, true},
		{"/a", "/a", true, false},
		{"/ab", "/a", false, false},
		{"/a", "/", true, true},
		{"/", "/", true, false},
		{"/a", "/a/b", false, false},
	} {
		if got := Within(c.p, c.root); got != c.within {
			t.Errorf("Within(%q, %q) = %v", c.p, c.root, got)
		}
		if got := Below(c.p, c.root); got != c.below {
			t.Errorf("Below(%q, %q) = %v", c.p, c.root, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"~", "~/x", "/a//b/.", `a\*b`, "~root", "$HOME", "\x00", "/home/u/p/*", "{", `\`} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, project bool) {
		b := Base{Home: "/var/home/u", HomeSpelled: "/home/u"}
		if project {
			b = base
		}
		got, err := Parse(s, b)
		if err != nil {
			if got != (Spec{}) {
				t.Fatalf("a path beside an error: %+v", got)
			}
			return
		}
		p := got.Path
		if p == "/" || !path.IsAbs(p) || path.Clean(p) != p {
			t.Fatalf("Parse(%q) = %q, which is not absolute and clean", s, p)
		}
		if strings.IndexByte(p, 0) >= 0 {
			t.Fatalf("Parse(%q) = %q holds NUL", s, p)
		}
	})
}
