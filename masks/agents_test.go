package masks

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestAgentTable(t *testing.T) {
	if !slices.IsSortedFunc(agents, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("profiles are not sorted")
	}
	for _, a := range Agents() {
		if !strings.HasPrefix(a.Source, "https://") {
			t.Errorf("%s has no source", a.Name)
		}
		if !slices.IsSortedFunc(a.Paths, func(x, y AgentPath) int { return strings.Compare(x.Path, y.Path) }) {
			t.Errorf("%s: paths are not sorted", a.Name)
		}
		slots := map[string]string{}
		for _, p := range a.Paths {
			if p.Mode != Private && p.Mode != RO {
				t.Errorf("%s: %s is %s; built-in profiles are private or read-only", a.Name, p.Path, p.Mode)
			}
			if got, err := tilde(p.Path); err != nil || got != p.Path {
				t.Errorf("%s: %s: %q, %v", a.Name, p.Path, got, err)
			}
			if other, ok := slots[slot(p.Path)]; ok {
				t.Errorf("%s: %s and %s share a directory", a.Name, p.Path, other)
			}
			slots[slot(p.Path)] = p.Path
			for _, s := range p.Seed {
				if !strings.HasPrefix(s.From, "~/.") || strings.HasPrefix(s.To, "/") || strings.Contains(s.To, "..") {
					t.Errorf("%s: seed %v", a.Name, s)
				}
			}
		}
	}
}

// Where an agent keeps a login is hidden from every other one.
func TestAgentLoginsAreCredentials(t *testing.T) {
	plan := mustMake(t, input(), host(t, "d /home/u/p"))
	for _, a := range agents {
		for _, p := range a.Paths {
			for _, s := range p.Seed {
				if !plan.Masked(expand(s.From, testHome)) {
					t.Errorf("%s: %s is seen without the profile", a.Name, s.From)
				}
			}
		}
	}
}

// withAgent is a session of a built-in profile.
func withAgent(t *testing.T, name string, rules ...Rule) Input {
	t.Helper()
	a, ok := FindAgent(name)
	if !ok {
		t.Fatalf("no profile %s", name)
	}
	return input(append(a.Rules(testHome, "/var/tmp/sbxd-1000/agents/"+name, "/var/tmp/sbxd-1000/sessions/x/agent"), rules...)...)
}

// Nothing that a host program obeys is writable through a profile, nor can it be made:
// every path below the state of an agent, existing or not, is sbxd's own or read-only.
func TestAgentsCannotReachTheHost(t *testing.T) {
	tree := []string{
		"d /home/u/p", "f /home/u/.claude/settings.json", "d /home/u/.claude/skills", "f /home/u/.claude.json",
		"f /home/u/.codex/config.toml", "f /home/u/.codex/AGENTS.md", "d /home/u/.codex/packages",
		"f /home/u/.gemini/settings.json", "d /home/u/.local/share/opencode/bin", "d /home/u/.pi/agent",
	}
	names := []string{
		"settings.json", "settings.local.json", "hooks", "hooks/pre", "plugins/x", "skills/x/SKILL.md", "CLAUDE.md", "AGENTS.md",
		"GEMINI.md", "commands/x.md", "agents/x.md", "mcp.json", "config.toml", "rules/default.rules", "bin/tool", "extensions/x",
		"packages/standalone/codex", "auth.json", ".env", "not-yet-there",
	}
	for _, a := range agents {
		for _, exists := range []bool{true, false} {
			lines := tree[:1]
			if exists {
				lines = tree
			}
			plan := mustMake(t, withAgent(t, a.Name), host(t, lines...))
			for _, s := range plan.Steps {
				if s.Op == BindRW && !Within(s.Source, "/var/tmp/sbxd-1000/agents/"+a.Name) {
					t.Errorf("%s: %s is writable on the host", a.Name, s.Source)
				}
			}
			for _, p := range a.Paths {
				for _, n := range names {
					e := plan.Explain(expand(p.Path, testHome) + "/" + n)
					if e.Verdict != Own && e.Verdict != ReadOnly {
						t.Errorf("%s: %s is %s", a.Name, e.Path, e.Verdict)
					}
				}
			}
		}
	}
}

func TestAgentPlans(t *testing.T) {
	tree := host(
		t, "d /home/u/p", "f /home/u/.claude/settings.json", "d /home/u/.claude/skills", "f /home/u/.claude/CLAUDE.md",
		"f /home/u/.claude.json", "f /home/u/.claude.json.backup", "d /home/u/.pi/agent", "f /home/u/.pi/agent/AGENTS.md",
		"d /var/tmp/sbxd-1000/agents/claude-code/.claude", "d /var/tmp/sbxd-1000/agents/pi/.pi+agent",
	)
	for _, name := range []string{"claude-code", "pi", "opencode"} {
		golden(t, "agent-"+name, print(mustMake(t, withAgent(t, name), tree), false))
	}
}

func TestAgentOverride(t *testing.T) {
	a, _ := FindAgent("codex")
	b, err := a.Override(
		map[string]string{"~/.codex/prompts/": "none", "~/.config/codex-extra": "copy", "/srv/cache": "live"},
		[]string{"~/.codex/version.json", "~/.config/codex-extra/a/b"},
		map[string]string{"CODEX_HOME": "~/.codex", "RUST_LOG": "off"},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range b.Rules("/h", "/s/agents/codex", "/s/sessions/x/agent") {
		got = append(got, r.Class.String()+" "+r.Path+" from "+r.Target)
	}
	want := []string{
		"carve-out /srv/cache from ",
		"carve-out /h/.codex from /s/agents/codex/.codex",
		"runtime input /h/.codex/AGENTS.md from ",
		"runtime input /h/.codex/packages from ",
		"carve-out /h/.config/codex-extra from /s/sessions/x/agent/.config+codex-extra",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
	dirs := b.OwnDirs("/h", "/k", "/o")
	if len(dirs) != 2 || dirs[0].Path != "/k/.codex" || dirs[1].Path != "/o/.config+codex-extra" ||
		dirs[0].Seed[2] != (Seed{"/h/.codex/version.json", "version.json"}) || dirs[1].Seed[0] != (Seed{"/h/.config/codex-extra/a/b", "a/b"}) {
		t.Errorf("own directories: %+v", dirs)
	}
	if env := b.Environ("/home/u"); !slices.Equal(env, []string{"CODEX_HOME=/home/u/.codex", "RUST_LOG=off"}) {
		t.Errorf("environment %v", env)
	}
	if orig, _ := FindAgent("codex"); len(orig.Paths) != len(a.Paths) || len(orig.Paths[0].Seed) != 2 {
		t.Error("the built-in profile was changed")
	}
	for _, c := range []struct {
		paths map[string]string
		seed  []string
		say   string
	}{
		{map[string]string{"~/.x": "rw"}, nil, `mode "rw"`},
		{map[string]string{".x": "ro"}, nil, "is relative"},
		{nil, []string{"~/.elsewhere/x"}, "lies in no private or copied directory"},
		{nil, []string{"$HOME/x"}, "variables are not expanded"},
	} {
		if _, err := a.Override(c.paths, c.seed, nil); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("Override(%v, %v): %v, want %q", c.paths, c.seed, err, c.say)
		}
	}
}

// A live path of a profile is a carve-out like any other: credentials, and what the
// host obeys, cannot be one.
func TestAgentLiveIsChecked(t *testing.T) {
	a, _ := FindAgent("codex")
	for path, say := range map[string]string{
		"~/.codex": "would expose", "~/.claude": "would expose", "~/.config": "holds sbxd's own", "~/.local": "would expose",
		"~/.config/opencode": "run or obey", "~/.local/bin": "run or obey", "~": "HOME",
	} {
		b, err := a.Override(map[string]string{path: "live"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Make(input(b.Rules(testHome, "/var/tmp/sbxd-1000/agents/codex", "/x")...), host(t, "d /home/u/p", "d /home/u/.codex", "d /home/u/.claude"))
		if err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "agent codex") {
			t.Errorf("%s live: %v, want %q", path, err, say)
		}
	}
}

func TestMakeOwnDirs(t *testing.T) {
	dir := testbox.TempDir(t)
	home := filepath.Join(dir, "home")
	for name, text := range map[string]string{".x/auth.json": "token", ".x/deep/er": "2", "real": "linked"} {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../real", filepath.Join(home, ".x/settings")); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "state/agents/x/.x")
	d := OwnDir{Path: own, Seed: []Seed{
		{home + "/.x/auth.json", "auth.json"},
		{home + "/.x/deep/er", "a/b"},
		{home + "/.x/settings", "settings"},
		{home + "/.x/missing", "missing"},
		{home + "/.x/deep", "dir"},
	}}
	if err := os.MkdirAll(filepath.Dir(own)+"/new-.x", 0o700); err != nil { // left by a killed start
		t.Fatal(err)
	}
	warnings, err := MakeOwnDirs([]OwnDir{d})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "/.x/deep is not copied") {
		t.Errorf("warnings %q", warnings)
	}
	for name, want := range map[string]string{"auth.json": "token", "a/b": "2", "settings": "linked"} {
		if got, err := os.ReadFile(filepath.Join(own, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if st, err := os.Stat(own); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := os.Remove(filepath.Join(own, "auth.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeOwnDirs([]OwnDir{d}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(own, "auth.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a second start seeded again: %v", err)
	}
	if names, _ := os.ReadDir(filepath.Dir(own)); len(names) != 1 {
		t.Errorf("something is left: %v", names)
	}
	if _, err := MakeOwnDirs([]OwnDir{{Path: filepath.Join(own, "settings", "x")}}); err == nil {
		t.Error("a file on the way is let through")
	}
}

// The documentation lists every profile with every path.
func TestAgentsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			rows[strings.Trim(cells[1], " `")] = line
		}
	}
	for _, a := range agents {
		for _, p := range a.Paths {
			word := p.Path
			if p.Mode == RO {
				word = filepath.Base(p.Path)
			}
			if !strings.Contains(rows[a.Name], word) {
				t.Errorf("docs/config.md does not tell of %s for %s", p.Path, a.Name)
			}
		}
	}
}
