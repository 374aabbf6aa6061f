// Package deploy_test holds the tests of the files that systemd, tmpfiles and AppArmor
// read. It knows their syntax as far as it needs to, and the machine as far as it has
// the tools; nothing of the daemon but its command line.
package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) { testbox.Main(m) }

// units are all units that we ship, and the arguments that systemd-analyze needs.
var units = map[string][]string{
	"sbxd.service":      nil,
	"user/sbxd.service": {"--user"},
}

// setting is a line of a unit.
type setting struct{ section, key, value string }

func parse(t *testing.T, name string) []setting {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []setting
	section := ""
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Fatalf("%s:%d: %q is no setting", name, i+1, line)
			}
			out = append(out, setting{section, key, value})
		}
	}
	return out
}

// A unit with one of these gets a mount namespace, a root or rights of its own: mounts of
// the host would not appear in it, or sessions could not make theirs.
var refused = regexp.MustCompile(`^(Protect.*|Private.*|ReadWritePaths|ReadOnlyPaths|InaccessiblePaths|ExecPaths|NoExecPaths|` +
	`BindPaths|BindReadOnlyPaths|TemporaryFileSystem|MountFlags|MountAPIVFS|MountImages|ExtensionImages|RootDirectory|RootImage|` +
	`ProcSubset|DynamicUser|NoNewPrivileges|Restrict.*|SystemCall.*|MemoryDenyWriteExecute|LockPersonality|CapabilityBoundingSet)$`)

func TestUnitsKeepSessionsAlive(t *testing.T) {
	must := map[string]string{
		"Type": "notify", "NotifyAccess": "main", "ExecStart": "/usr/bin/sbxd serve", "KillMode": "process",
		"Delegate": "yes", "OOMPolicy": "continue", "Restart": "on-failure",
		"RuntimeDirectory": "sbxd", "RuntimeDirectoryPreserve": "yes",
	}
	for name := range units {
		got := map[string]string{}
		for _, s := range parse(t, name) {
			if refused.MatchString(s.key) {
				t.Errorf("%s: %s=%s hides mounts or takes rights that sessions need", name, s.key, s.value)
			}
			if _, twice := got[s.key]; twice && s.section == "Service" {
				t.Errorf("%s: %s is set twice", name, s.key)
			}
			if s.section == "Service" {
				got[s.key] = s.value
			}
		}
		for key, want := range must {
			if got[key] != want {
				t.Errorf("%s: %s=%s, want %s", name, key, got[key], want)
			}
		}
		if got["LimitNOFILE"] == "" {
			t.Errorf("%s: no LimitNOFILE", name)
		}
		if _, has := got["StateDirectory"]; has != (name == "sbxd.service") {
			t.Errorf("%s: StateDirectory set %v: a user's would lie in HOME, which sessions see", name, has)
		}
	}
}

func TestTheRefusedListCatches(t *testing.T) {
	for _, key := range []string{"ProtectSystem", "PrivateTmp", "ReadWritePaths", "RestrictNamespaces", "SystemCallFilter", "NoNewPrivileges"} {
		if !refused.MatchString(key) {
			t.Errorf("%s is not refused", key)
		}
	}
	for _, key := range []string{"Restart", "RestartSec", "RuntimeDirectory", "Type"} {
		if refused.MatchString(key) {
			t.Errorf("%s is refused", key)
		}
	}
}

// TestSystemdUnderstandsTheUnits asks systemd itself. The program is replaced: the unit
// is verified, not the machine that it runs on.
func TestSystemdUnderstandsTheUnits(t *testing.T) {
	testbox.Need(t, "systemd-analyze")
	verify := func(t *testing.T, text string, args []string) string {
		t.Helper()
		dir := testbox.TempDir(t)
		unit := filepath.Join(dir, "sbxd.service")
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "systemd-analyze", append(append([]string{"verify", "--man=no"}, args...), unit)...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "SYSTEMD_LOG_LEVEL=warning")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Sprintf("%v: %s", err, out)
		}
		var about []string
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, unit) || strings.Contains(line, "sbxd.service") {
				about = append(about, line) // other lines are about units of the machine
			}
		}
		return strings.Join(about, "")
	}
	for name, args := range units {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(b), "ExecStart=/usr/bin/sbxd serve", "ExecStart=/bin/true", 1)
		if out := verify(t, text, args); out != "" {
			t.Errorf("%s: %s", name, out)
		}
		if out := verify(t, text+"NoSuchSetting=1\n", args); !strings.Contains(out, "NoSuchSetting") {
			t.Errorf("%s with a wrong setting: systemd-analyze said %q", name, out)
		}
	}
}

func TestTmpfilesKeepsStateRoots(t *testing.T) {
	b, err := os.ReadFile("tmpfiles.conf")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		hit, err := filepath.Match(f[1], "/var/tmp/sbxd-1000")
		found = found || err == nil && hit && f[0] == "x"
	}
	if !found {
		t.Error("no line keeps the cleaner out of /var/tmp/sbxd-<uid>")
	}
	testbox.Need(t, "systemd-tmpfiles", "root")
	// A cleaner that knows only our line and one that gives /var/tmp an age.
	root := testbox.TempDir(t)
	kept, gone := root+"/var/tmp/sbxd-7/sessions/f", root+"/var/tmp/other"
	for _, p := range []string{kept, gone} {
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(root+"/etc/tmpfiles.d", 0o700); err != nil {
		t.Fatal(err)
	}
	conf := root + "/etc/tmpfiles.d/x.conf"
	if err := os.WriteFile(conf, append([]byte("e /var/tmp 1777 - - 0\n"), b...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-tmpfiles", "--root="+root, "--clean", conf).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-tmpfiles: %v: %s", err, out)
	}
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("the cleaner took a file of a state root: %v", err)
	}
	if _, err := os.Lstat(gone); err == nil {
		t.Errorf("the cleaner did nothing, so the test shows nothing: %s", out)
	}
}

func TestAppArmorProfileOnlyAllowsNamespaces(t *testing.T) {
	b, err := os.ReadFile("apparmor/sbxd")
	if err != nil {
		t.Fatal(err)
	}
	profiles := regexp.MustCompile(`(?m)^profile (\S+) flags=\(unconfined\) \{\n  userns,\n\n  include if exists <local/sbxd>\n\}$`).FindAllStringSubmatch(string(b), -1)
	var paths []string
	for _, p := range profiles {
		paths = append(paths, p[1])
	}
	if got := strings.Join(paths, " "); got != "/usr/bin/sbxd /usr/local/bin/sbxd" {
		t.Errorf("profiles for %q", got)
	}
	if n := strings.Count(string(b), "\nprofile "); n != len(profiles) {
		t.Errorf("%d profiles, %d of them in the expected form", n, len(profiles))
	}
	testbox.Need(t, "apparmor-4")
	out, err := exec.CommandContext(t.Context(), "apparmor_parser", "-QK", "apparmor/sbxd").CombinedOutput()
	if err != nil {
		t.Errorf("apparmor_parser: %v: %s", err, out)
	}
}
