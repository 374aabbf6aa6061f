package masks

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// refused makes a plan that must fail, and looks for phrases in the message.
func refused(t *testing.T, in Input, h Host, say ...string) {
	t.Helper()
	plan, err := Make(in, h)
	if err == nil {
		t.Fatalf("it is let through:\n%s", print(plan, false))
	}
	for _, s := range say {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the message lacks %q: %v", s, err)
		}
	}
}

func verdicts(t *testing.T, p Plan, want map[string]Verdict) {
	t.Helper()
	for path, v := range want {
		if e := p.Explain(path); e.Verdict != v {
			t.Errorf("%s is %s by %v, want %s", path, e.Verdict, e.Rule, v)
		}
	}
}

// B052: a masked dotfile is a link into a store. The link is covered, nothing is made
// in the store; a target that a session sees is covered too.
func TestB052(t *testing.T) {
	h := host(
		t, "d /home/u/p", "f /nix/store/x/cred", "l /home/u/.tool/cred -> /nix/store/x/cred",
		"f /home/u/dot/netrc", "l /home/u/.netrc -> dot/netrc", "l /home/u/.npmrc -> .link2", "l /home/u/.link2 -> /home/u/dot/npmrc",
	)
	in := input(rule(Mask, "/home/u/.tool/cred"))
	in.Base = append(in.Base, "/nix")
	plan := mustMake(t, in, h)
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.tool/cred": Hidden, "/nix/store/x/cred": ReadOnly, "/home/u/.netrc": Hidden, "/home/u/dot/netrc": Hidden,
		"/home/u/.npmrc": Hidden, "/home/u/dot/npmrc": Hidden, "/home/u/.link2": Hidden, "/home/u/dot": Copied,
	})
	golden(t, "B052", print(plan, false))
	in.Rules = append(in.Rules, rule(ReadOnlyInput, "/srv/x"))
	plan = mustMake(t, in, host(t, "d /home/u/p", "f /srv/x/cred", "l /home/u/.tool/cred -> /srv/x/cred"))
	verdicts(t, plan, map[string]Verdict{"/home/u/.tool/cred": Hidden, "/srv/x/cred": Hidden, "/srv/x/other": ReadOnly})
}

// B054: masks of what does not exist get a placeholder, also below missing directories.
func TestB054(t *testing.T) {
	in := input(rule(Mask, "/home/u/.notyet/cred"), rule(Mask, "/home/u/p/a/b/c"), Rule{Class: Mask, Path: "/home/u/.later", Kind: KindDir, From: "test"})
	plan := mustMake(t, in, host(t, "d /home/u/p"))
	golden(t, "B054", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.notyet/cred": Hidden, "/home/u/.notyet/cred/x": Hidden, "/home/u/.notyet": Copied, "/home/u/.aws/credentials": Hidden,
		"/home/u/p/a/b/c": Hidden, "/home/u/p/a": Copied,
	})
	if len(plan.Unmatched) != 3 {
		t.Errorf("unmatched %v, want the three rules of the user", plan.Unmatched)
	}
}

// B058: a path that is both carved out and finally masked ends hidden.
func TestB058(t *testing.T) {
	h := host(t, "d /home/u/p", "f /home/u/.zz", "f /srv/c/token", "f /srv/c/a/b/secret")
	plan := mustMake(t, input(
		rule(CarveOut, "/home/u/.zz"), rule(FinalMask, "/home/u/.zz"),
		rule(CarveOut, "/srv/c"), rule(FinalMask, "/srv/c/token"), rule(FinalMask, "/srv/c/a/b/secret"),
	), h)
	golden(t, "B058", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.zz": Hidden, "/srv/c": Writable, "/srv/c/token": Hidden, "/srv/c/a": Writable, "/srv/c/a/b/secret": Hidden,
	})
	// What is not there cannot be covered in a real directory: refused, not forgotten.
	refused(t, input(rule(CarveOut, "/srv/c"), rule(FinalMask, "/srv/c/later")), h, "/srv/c/later", "create it first")
}

// B060: what editors and programs leave beside a secret is hidden, and the user is
// told to mask the directory.
func TestB060(t *testing.T) {
	names := []string{
		"token.json.bak", "token.json.tmp-41", ".token.json.swp", "token.json~", "token.json.lock", "token.json.1234",
		"#token.json#", ".#token.json", "token.json.old", "token.json-wal", "token.json.bak.2",
	}
	keep := []string{"token.json5", "token.jsonl", "token", "other.json.bak", "token.json.example"}
	lines := []string{"d /home/u/p", "f /home/u/.tk/token.json", "f /home/u/.netrc", "f /home/u/.netrc.bak"}
	for _, n := range append(names, keep...) {
		lines = append(lines, "f /home/u/.tk/"+n)
	}
	plan := mustMake(t, input(rule(Mask, "/home/u/.tk/token.json")), host(t, lines...))
	for _, n := range names {
		verdicts(t, plan, map[string]Verdict{"/home/u/.tk/" + n: Hidden})
	}
	for _, n := range keep {
		verdicts(t, plan, map[string]Verdict{"/home/u/.tk/" + n: Copied})
	}
	verdicts(t, plan, map[string]Verdict{"/home/u/.netrc.bak": Hidden})
	if w := strings.Join(plan.Warnings, "\n"); strings.Count(w, "\n") != 0 || !strings.Contains(w, "mask the directory /home/u/.tk") {
		t.Errorf("warnings %q", w)
	}
}

// B062: git's own files stay readable; only its passwords are hidden.
func TestB062(t *testing.T) {
	plan := mustMake(t, input(), host(t, "d /home/u/p/.git/worktrees/w", "f /home/u/p/.git/config.worktree", "f /home/u/.gitconfig"))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/p/.git/config": Copied, "/home/u/p/.git/config.worktree": Copied, "/home/u/p/.git/info/sparse-checkout": Copied,
		"/home/u/.gitconfig": Copied, "/home/u/.config/git/ignore": Copied,
		"/home/u/.git-credentials": Hidden, "/home/u/.config/git/credentials": Hidden,
	})
}

// B064: twelve thousand masks are planned in no time, and a pattern is refused by name.
func TestB064(t *testing.T) {
	var rules []Rule
	lines := []string{"d /home/u/p/data"}
	for i := range 12000 {
		name := fmt.Sprintf("/home/u/p/data/shard-%05d-of-12000.bin", i)
		rules = append(rules, rule(Mask, name))
		lines = append(lines, "f "+name)
	}
	h, start := host(t, lines...), time.Now()
	plan := mustMake(t, input(rules...), h)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("planning took %v", d)
	}
	fresh := mustMake(t, input(), host(t, "d /home/u/p/data"))
	if n := len(plan.Steps) - len(fresh.Steps); n != 12000 {
		t.Errorf("%d steps for 12000 masks", n)
	}
	plan = mustMake(t, input(append(rules, rule(Mask, "/home/u/p/data"))...), h)
	if n := len(plan.Steps) - len(fresh.Steps); n != 1 {
		t.Errorf("%d steps for a directory and 12000 masks inside it", n)
	}
	if _, _, err := Parse("**/*.bin", input()); !errors.Is(err, ErrPattern) || !strings.Contains(err.Error(), "can only be a mask") {
		t.Errorf("a pattern: %v", err)
	}
}

// B066: both spellings of HOME and project are one path.
func TestB066(t *testing.T) {
	in := input()
	in.Home, in.HomeSpelled = "/var/home/u", "/home/u"
	in.Project, in.ProjectSpelled = "/var/home/u/p", "/home/u/link"
	for _, s := range []string{"~/.tool/x", "/home/u/.tool/x", "/var/home/u/.tool/x"} {
		p, kind, err := Parse(s, in)
		if err != nil || p != "/var/home/u/.tool/x" {
			t.Errorf("Parse(%q) = %q, %v", s, p, err)
		}
		in.Rules = append(in.Rules, Rule{Class: Mask, Path: p, Kind: kind, From: "test"})
	}
	plan := mustMake(t, in, host(t, "d /var/home/u/p", "l /home -> var/home", "f /var/home/u/.tool/x", "l /var/home/u/link -> p"))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.tool/x": Hidden, "/var/home/u/.tool/x": Hidden, "/home/u/.ssh": Hidden, "/home/u/link/f": Copied,
	})
	if e := plan.Explain("/home/u/.tool/x"); e.Real != "/var/home/u/.tool/x" {
		t.Errorf("explained as %s", e.Real)
	}
}

// B068: spaces, quotes, dashes and meta characters are bytes like any other.
func TestB068(t *testing.T) {
	in := input()
	in.Project = "/tmp/acc/sp ace/it's \"q\" --bind / *"
	for _, s := range []string{in.Project + "/-- secret", "-- secret", "./-- secret"} {
		p, _, err := Parse(s, in)
		if err != nil || p != in.Project+"/-- secret" {
			t.Errorf("Parse(%q) = %q, %v", s, p, err)
		}
	}
	in.Rules = []Rule{rule(Mask, in.Project+"/-- secret"), rule(Mask, in.Project+"/new\nline\\")}
	plan := mustMake(t, in, host(t, "d /home/u", "f "+in.Project+"/-- secret"))
	verdicts(t, plan, map[string]Verdict{in.Project + "/-- secret": Hidden, in.Project + "/new\nline\\": Hidden})
	golden(t, "B068", print(plan, false))
}

// B170: see also package hostpath. A mask that cannot match is an error or a warning.
func TestB170(t *testing.T) {
	in := input()
	in.Project = "" // as for a configuration file
	for _, s := range []string{".ssh", "./x", "//home/u/.ssh", "", "/", "~root/.ssh", "$HOME/.ssh"} {
		if p, _, err := Parse(s, in); err == nil {
			t.Errorf("Parse(%q) = %q", s, p)
		}
	}
	plan := mustMake(t, input(rule(Mask, "/home/u/.shh/id"), rule(Mask, "/home/u/.hidden"), rule(Mask, "/srv/x"), rule(Mask, "/etc/nope")), host(t, "d /home/u/p", "d /etc"))
	w := strings.Join(plan.Warnings, "\n")
	for _, want := range []string{
		"/home/u/.shh/id (test) matches nothing, and not even /home/u/.shh exists; check the spelling",
		"/srv/x (test) is outside of everything that a session sees",
		"/etc/nope (test) does not exist, and what the host puts there later will be seen",
	} {
		if !strings.Contains(w, want) {
			t.Errorf("no warning %q in:\n%s", want, w)
		}
	}
}

// B172: no spelling gets a forbidden carve-out through.
func TestB172(t *testing.T) {
	for _, s := range []string{"~/.ssh", "~/.ssh/", "~/.ssh//", "~/.ssh/.", "~//.ssh", "~/x/../.ssh", "/home/u/.ssh", "~", "~/"} {
		p, kind, err := Parse(s, input())
		if err == nil {
			err = Check(input(Rule{Class: CarveOut, Path: p, Kind: kind, From: "--carve"}))
		}
		if err == nil {
			t.Errorf("a carve-out of %q is let through", s)
		}
	}
}

// B174: neither the project nor anything above it can be hidden.
func TestB174(t *testing.T) {
	in := input()
	in.Project = "/tmp/acc/top/p"
	h := host(t, "d /home/u", "d /tmp/acc/top/p", "l /home/u/link -> /tmp/acc", "l /home/u/dir -> /tmp")
	for _, m := range []string{"/tmp/acc/top", "/tmp/acc/top/p", "/tmp", "/home/u", "/home", "/usr", "/home/u/dir/acc"} {
		for _, class := range []Class{Mask, FinalMask} {
			in.Rules = []Rule{rule(class, m)}
			refused(t, in, h, m, "would hide", "(test)")
		}
	}
	if _, _, err := Parse("..", in); err == nil {
		t.Error(`".." is let through`)
	}
	// A link to something above is hidden itself; what it leads to is not.
	in.Rules = []Rule{rule(Mask, "/home/u/link")}
	plan := mustMake(t, in, h)
	verdicts(t, plan, map[string]Verdict{"/home/u/link": Hidden, "/tmp/acc/top/p/f": Copied})
	if !strings.Contains(strings.Join(plan.Warnings, "\n"), "too much to hide") {
		t.Errorf("warnings %q", plan.Warnings)
	}
	// A project inside a credential would vanish with it.
	in.Project, in.Rules = "/home/u/.aws/p", nil
	refused(t, in, host(t, "d /home/u/.aws/p"), "/home/u/.aws", "choose another directory")
}
