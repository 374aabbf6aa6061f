package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEscapeByAnOlderPolicy changes the policy under sessions, and tries each way to
// start a program: it runs under the policy of today, or not at all.
func TestEscapeByAnOlderPolicy(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"app/f": secret, "notes/n": secret, "app/g": "g"})
	policy := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(b.dir, "config.toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := `cat f ~/notes/n 2>/dev/null; true`
	ways := map[string]func(i *intruder) string{
		"exec": func(i *intruder) string {
			out, _ := i.sbxd("exec", i.id, "--", "sh", "-c", read)
			return out
		},
		"exec on a terminal": func(i *intruder) string {
			return onTerminal(t, b.cmd("exec", "-t", i.id, "--", "sh", "-c", read))
		},
		"exec, detached": func(i *intruder) string {
			out, code := i.sbxd("exec", "--detach", i.id, "--", "sh", "-c", read)
			if code != 0 {
				return out
			}
			got, _ := i.sbxd("exec", "--attach", strings.TrimSpace(out), i.id)
			return out + got
		},
		"by name": func(i *intruder) string {
			out, _ := i.sbxd("exec", "agent", "--", "sh", "-c", read)
			return out
		},
		"run": func(*intruder) string {
			out, _ := b.sbxd("run", "--project", b.project, "--", "sh", "-c", read)
			return out
		},
		"run for another session": func(i *intruder) string {
			out, _ := b.sbxd("run", "--project", b.project, "--parent", i.id, "--", "sh", "-c", read)
			return out
		},
	}
	i := b.intrude(t, "--name", "agent")
	try := func(t *testing.T, when string, hidden bool) {
		t.Helper()
		for name, way := range ways {
			if out := way(i); strings.Contains(out, secret) == hidden {
				t.Errorf("%s, %s: %q", when, name, out)
			}
		}
	}
	try(t, "without a mask", false)
	policy(`masks = ["~/app/f", "~/notes"]` + "\n")
	try(t, "with a new mask", true)
	b.refused(t, 7, "policy changed resume", "exec", i.id, "--", "true")
	b.run(t, 0, "stop", i.id)
	b.refused(t, 7, "", "exec", i.id, "--", "true")
	b.run(t, 0, "resume", i.id)
	try(t, "resumed", true)
	if out := i.sh("cat g"); out != "g" {
		t.Errorf("beside the masks: %s", out)
	}
	// What is said in another way, or is no rule, is no other policy.
	policy("# the same\n\nmasks = [\n  \"~/app//f\",\n  \"~/notes\",\n]\n[limits]\nlog_mib = 32\n")
	i.sh("true")
	// A policy that cannot be read lets nothing run.
	policy("masks = 7\n")
	for name, way := range ways {
		if out := way(i); strings.Contains(out, secret) || !strings.Contains(out, "masks") {
			t.Errorf("with a broken policy, %s: %q", name, out)
		}
	}
	// And none of it can hand out privileges.
	for _, line := range []string{`cap_add = ["ALL"]`, `privileged = true`, "uid = 0"} {
		policy(line + "\n")
		b.refused(t, 2, strings.Fields(line)[0], "start", "--project", b.project)
	}
	// A daemon that comes later asks the same.
	policy(`masks = ["~/app/f", "~/notes"]` + "\n")
	if err := b.end(os.Kill); err != nil {
		t.Fatal(err)
	}
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	i.sh("true")
	policy(`masks = ["~/app/f"]` + "\n")
	b.refused(t, 7, "policy changed resume", "exec", i.id, "--", "true")
	policy("")
}
