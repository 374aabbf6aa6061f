package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/masks"
)

// cli is a real agent program and what is known of it.
type cli struct {
	profile, command string
	check            []string // its own self-check, or what comes nearest without a network
	env              string   // for the check
	mayFail          bool     // the check wants a login or a network and says so by its exit code
	// writes are the places in HOME, outside the profile, that it may write in the
	// session's own copy: its settings, which no host program gets to see.
	writes []string
}

var clis = []cli{
	{profile: "claude-code", command: "claude", check: []string{"mcp", "list"}, writes: []string{".cache", ".local/state/claude", ".local/share/claude"}},
	{profile: "codex", command: "codex", check: []string{"doctor"}, mayFail: true, writes: []string{".cache"}},
	{profile: "gemini", command: "gemini", check: []string{"--list-extensions"}, env: "GEMINI_API_KEY=none", writes: []string{".cache", ".npm"}},
	{profile: "opencode", command: "opencode", check: []string{"debug", "paths"}, writes: []string{".cache", ".config/opencode"}},
}

// agentBin is the directory of the agents programs: SBXD_TEST_AGENTS, or where
// .ci/agents installs them.
func agentBin(t *testing.T, command string) string {
	t.Helper()
	for _, dir := range []string{os.Getenv("SBXD_TEST_AGENTS"), "/opt/sbxd-test-agents", filepath.Join("..", "..", "build", "agents")} {
		bin, err := filepath.Abs(filepath.Join(dir, "node_modules", ".bin"))
		if _, missing := os.Stat(filepath.Join(bin, command)); err == nil && missing == nil && dir != "" {
			return bin
		}
	}
	testbox.Skip(t, command, "a program of the npm registry; .ci/agents installs it")
	return ""
}

// seeing returns the arguments of start that let a session see the programs.
func seeing(bin string) []string {
	dir := filepath.Dir(filepath.Dir(bin))
	if masks.Within(dir, "/opt") || masks.Within(dir, "/usr") {
		return nil
	}
	return []string{"--ro", dir}
}

func TestAgentPrograms(t *testing.T) {
	for _, c := range clis {
		t.Run(c.command, func(t *testing.T) {
			bin := agentBin(t, c.command)
			b := served(t)
			fillAgentHome(t, b, c)
			before := digest(t, b.home)
			id := b.run(t, 0, append([]string{"start", "--project", b.project, "--agent", c.profile}, seeing(bin)...)...)
			in := func(want int, script string) string {
				return b.run(t, want, "exec", id, "--", "sh", "-c", "export PATH="+bin+":$PATH; "+script)
			}
			if out := in(0, c.command+" --version"); !strings.ContainsAny(out, "0123456789") {
				t.Errorf("version %q", out)
			}
			checked := in(0, fmt.Sprintf("%s %s %s </dev/null >/tmp/said 2>&1; echo rc=$?; cat /tmp/said", c.env, c.command, strings.Join(c.check, " ")))
			if !c.mayFail && !strings.HasPrefix(checked, "rc=0") || strings.Contains(checked, "EROFS") || strings.Contains(checked, "EACCES") {
				t.Errorf("self-check: %s", checked)
			}
			if out := in(0, attack(c)); out != "" {
				t.Errorf("the host's own files of the agent could be changed:\n%s", out)
			}
			tracedPaths(t, b, id, c)
			b.run(t, 0, "rm", "--discard", id)
			if after := digest(t, b.home); after != before {
				t.Error("the real HOME has changed")
			}
		})
	}
}

// fillAgentHome gives HOME what a host program of the agent reads and obeys.
func fillAgentHome(t *testing.T, b *box, c cli) {
	t.Helper()
	p, ok := masks.FindAgent(c.profile)
	if !ok {
		t.Fatalf("no profile %s", c.profile)
	}
	for _, path := range p.Paths {
		dir := filepath.Join(b.home, strings.TrimPrefix(path.Path, "~/"))
		if strings.HasSuffix(dir, ".md") {
			if err := os.WriteFile(dir, []byte("be good\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"settings.json", "config.json", "hooks/pre"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := give(b.home, b.uid, b.uid); err != nil {
		t.Fatal(err)
	}
}

// attack tries to change what the host's programs of the agent execute or obey, by every
// name of the profile, and prints what could be changed in a place that is the host's.
func attack(c cli) string {
	p, _ := masks.FindAgent(c.profile)
	var s strings.Builder
	for _, path := range p.Paths {
		at := "$HOME/" + strings.TrimPrefix(path.Path, "~/")
		fmt.Fprintf(&s, "mkdir -p %[1]s/hooks 2>/dev/null; echo evil >%[1]s/settings.json 2>/dev/null; echo evil >%[1]s/never-seen 2>/dev/null\n", at)
		fmt.Fprintf(&s, "mv %[1]s %[1]s.moved 2>/dev/null && echo moved %[1]s\n", at)
		if path.Mode == masks.RO {
			fmt.Fprintf(&s, "[ -e %[1]s/never-seen ] && echo wrote %[1]s/never-seen\n", at)
		}
	}
	s.WriteString("true\n")
	return s.String()
}

// tracedPaths compares what the program wrote in HOME with its profile: everything is
// either in a directory of the profile, which the session's copy of HOME does not see,
// or among the few other places that are known.
func tracedPaths(t *testing.T, b *box, id string, c cli) {
	t.Helper()
	var d api.Diff
	if err := json.Unmarshal([]byte(b.run(t, 0, "diff", "--home", "--json", id)), &d); err != nil {
		t.Fatal(err)
	}
	for _, e := range d.Changes {
		path := e.Path
		if !slices.ContainsFunc(c.writes, func(w string) bool { return masks.Within("/"+path, "/"+w) || masks.Within("/"+w, "/"+path) }) {
			t.Errorf("%s wrote ~/%s, which its profile does not know", c.command, path)
		}
	}
}

// digest is a fingerprint of a tree: names, modes, contents.
func digest(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %v\n", p, info.Mode())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			h.Write(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// A real agent with a scripted model on the session's own loopback edits, runs and
// commits in the sandbox; what it did lands.
func TestClaudeCodeWorks(t *testing.T) {
	bin := agentBin(t, "claude")
	testbox.Need(t, "git")
	b := served(t)
	model := filepath.Join(b.dir, "model")
	build := exec.Command("go", "build", "-o", filepath.Join(model, "model"), "github.com/sbxd/sbxd/e2e/model")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the model: %v\n%s", err, out)
	}
	script := []map[string]any{
		{"tool": "Write", "input": map[string]string{"file_path": filepath.Join(b.project, "answer.sh"), "content": "#!/bin/sh\necho $((6*7))\n"}},
		{"tool": "Bash", "input": map[string]string{"command": "git init -q . 2>/dev/null; sh answer.sh > answer.txt && git add -A && git commit -qm 'agent: answer'", "description": "run and commit"}},
	}
	text, err := json.Marshal(script)
	if err == nil {
		err = os.WriteFile(filepath.Join(model, "script.json"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := b.run(t, 0, append([]string{
		"start", "--project", b.project, "--agent", "claude-code", "--ro", model,
		"--env", "GIT_AUTHOR_NAME", "--env", "GIT_AUTHOR_EMAIL", "--env", "GIT_COMMITTER_NAME", "--env", "GIT_COMMITTER_EMAIL",
	}, seeing(bin)...)...)
	b.run(t, 0, "exec", "--detach", id, "--", model+"/model", "-script", model+"/script.json", "-ready", "/tmp/model")
	said := b.run(t, 0, "exec", id, "--", "sh", "-c", `for i in $(seq 100); do [ -s /tmp/model ] && break; sleep 0.1; done
		ANTHROPIC_BASE_URL=http://$(cat /tmp/model) ANTHROPIC_API_KEY=sk-ant-test PATH=`+bin+`:$PATH \
		claude -p "answer the question" --dangerously-skip-permissions 2>&1; git log --format=%s`)
	if !strings.Contains(said, "The work is done.") || !strings.Contains(said, "agent: answer") {
		t.Fatalf("the agent said: %s", said)
	}
	if _, err := os.Lstat(filepath.Join(b.project, "answer.txt")); err == nil {
		t.Error("the real project was changed before the landing")
	}
	b.run(t, 0, "land", "--yes", id)
	if got, err := os.ReadFile(filepath.Join(b.project, "answer.txt")); err != nil || string(got) != "42\n" {
		t.Errorf("the landed answer is %q (%v)", got, err)
	}
}
