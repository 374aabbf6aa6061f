package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEscapeByTheEnvironment gives daemon and caller the variables that hosts have, and
// looks for their values inside, in argument lists, records, events and logs.
func TestEscapeByTheEnvironment(t *testing.T) {
	t.Parallel()
	b := served(t)
	plain := b.env
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "GH_TOKEN", "GITHUB_TOKEN", "LARK_APP_SECRET", "DBUS_SESSION_BUS_ADDRESS", "TMUX",
		"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "NPM_TOKEN", "LD_PRELOAD_X", "KUBECONFIG", "GPG_AGENT_INFO", "XAUTHORITY", "WAYLAND_DISPLAY",
	} {
		b.env = append(b.env, name+"="+hushed(name))
	}
	if err := b.end(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	i := b.intrude(t)
	for name, out := range map[string]string{
		"exec":    i.sh("env; cat /proc/*/environ | tr '\\0' '\\n'"),
		"run":     b.run(t, 0, "run", "--project", b.project, "--", "sh", "-c", "env; cat /proc/*/environ | tr '\\0' '\\n'"),
		"resumed": func() string { b.run(t, 0, "stop", i.id); b.run(t, 0, "resume", i.id); return i.sh("env") }(),
	} {
		if strings.Contains(out, "hush-") {
			t.Errorf("%s: %s", name, out)
		}
		if !strings.Contains(out, "HOME="+b.home) || !strings.Contains(out, "PATH=") {
			t.Errorf("%s: nothing to work with: %s", name, out)
		}
	}

	t.Run("what is listed passes and is kept to itself", func(t *testing.T) {
		file := filepath.Join(b.dir, "envfile")
		if err := os.WriteFile(file, []byte("FILED="+hushed("FILED")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		sum := func(names ...string) string { // values stay out of output, which is logged
			var out strings.Builder
			for _, n := range names {
				fmt.Fprintf(&out, "%x  -\n", sha256.Sum256([]byte(hushed(n))))
			}
			return strings.TrimSuffix(out.String(), "\n")
		}
		const tell = `printf %s "$GH_TOKEN" | sha256sum; printf %s "$FILED" | sha256sum`
		j := b.intrude(t, "--env", "GH_TOKEN", "--env", "MISSING_ONE", "--env-file", file)
		if out := j.sh(tell); out != sum("GH_TOKEN", "FILED") {
			t.Errorf("inside: %s", out)
		}
		if out := j.sh("env | grep -c -e AWS -e MISSING || true"); out != "0" {
			t.Errorf("inside there are %s more", out)
		}
		j.sh("sleep 1000 >/dev/null 2>&1 &")
		for _, arg := range strings.Split(b.owner(t, "ps -eo args"), "\n") {
			if strings.Contains(arg, "hush-") {
				t.Errorf("an argument list: %s", arg)
			}
		}
		b.run(t, 0, "stop", j.id)
		b.run(t, 0, "resume", j.id)
		if out := j.sh(tell); out != sum("GH_TOKEN", "FILED") {
			t.Errorf("inside, resumed: %s", out)
		}
		if out := b.run(t, 0, "exec", "--env", "AWS_SECRET_ACCESS_KEY", i.id, "--", "sh", "-c", `printf %s "$AWS_SECRET_ACCESS_KEY" | sha256sum`); out != sum("AWS_SECRET_ACCESS_KEY") {
			t.Errorf("exec --env: %s", out)
		}
		if out := i.sh("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"); strings.Contains(out, "hush-") {
			t.Errorf("a later command: %s", out)
		}
		for _, args := range [][]string{{"status", "--json", j.id}, {"list", "--json"}, {"status", j.id}} {
			if out := b.run(t, 0, args...); strings.Contains(out, "hush-") {
				t.Errorf("sbxd %q: %s", args, out)
			}
		}
		left, _ := exec.Command("grep", "-rl", "hush-", filepath.Join(b.dir, "state"), filepath.Join(b.dir, "daemon.log")).Output()
		path := strings.TrimSpace(string(left))
		if st, err := os.Stat(path); filepath.Base(path) != "env" || err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("values are in %s (%v), want the one env file", left, err)
		}
	})
	b.env = plain
}

// hushed is the value of a variable that is to be kept.
func hushed(name string) string { return "hush-" + name + "-hush" }

// TestEscapeByLookingAround looks for files of the host that nobody showed to it.
func TestEscapeByLookingAround(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"app/f": "f", filepath.Join(b.dir, "w") + "/f": secret})
	i := b.intrude(t)
	if out := i.sh("ls -A /run /var /var/tmp /dev/shm /run/user | tr '\\n' ' '"); out != fmt.Sprintf("/dev/shm:  /run: sbxbin user  /run/user: %d  /var: run tmp  /var/tmp: ", b.uid) {
		t.Errorf("inside: %q", out)
	}
	base := []string{"bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "run", "sbin", "tmp", "usr", "var"}
	for _, name := range strings.Fields(i.sh("ls -A /")) {
		if !slices.Contains(base, name) && !strings.HasPrefix(b.dir, "/"+name+"/") {
			t.Errorf("inside there is /%s", name)
		}
	}
	for _, dir := range []string{"/sys", "/boot", "/root", "/mnt", "/media", "/srv", "/home", "/var/lib", "/var/log", "/etc/sbxd/config.toml", b.dir + "/state", b.dir + "/w"} {
		if strings.HasPrefix(b.dir, dir+"/") {
			continue
		}
		i.refuses("ls -d \"$1\"", dir)
	}
	i.hunt()
}
