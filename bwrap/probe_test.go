package bwrap

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

func probeAsUser(res results, args []string) error {
	f, err := Probe(context.Background(), args[0], args[1])
	res.add("error", err)
	b, _ := json.Marshal(f)
	res["findings"] = string(b)
	if e, ok := errors.AsType[*ProbeError](err); ok {
		res["reason"] = string(e.Reason)
	}
	return nil
}

// probeBelow goes on as root of a user namespace, where it may set the limit.
func probeBelow(res results, args []string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{"stage", "probe-without-userns"}, args...)...)
	cmd.SysProcAttr = rootBelow()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, &res)
}

func probeWithoutUserns(res results, args []string) error {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return err
	}
	return probeAsUser(res, args)
}

// probed runs a probe in a process of its own, as the unprivileged user.
func probed(t *testing.T, stage, program string) results {
	t.Helper()
	dir := testbox.TempDir(t)
	cmd := testbox.UserCommand(t, "/proc/self/exe", "stage", stage, program, dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	res := results{}
	if err := json.Unmarshal(out, &res); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
	return res
}

func TestProbeFindsAWorkingBubblewrap(t *testing.T) {
	testbox.Need(t, "bwrap", "userns")
	program := bwrapProgram(t)
	got := probed(t, "probe", program)
	var f Findings
	if err := json.Unmarshal([]byte(got["findings"]), &f); err != nil {
		t.Fatal(err)
	}
	if got["error"] != "ok" || f.Program != program || !strings.HasPrefix(f.Version, "bubblewrap ") {
		t.Errorf("Probe = %+v, %s", f, got["error"])
	}
	t.Logf("%+v", f)
}

func TestProbeNamesMissingUserNamespaces(t *testing.T) {
	testbox.Need(t, "bwrap", "userns")
	got := probed(t, "probe-below", bwrapProgram(t))
	if got["reason"] != string(NoUserns) || !strings.Contains(got["error"], "sysctl -w user.max_user_namespaces") {
		t.Errorf("Probe: %s (%s)", got["error"], got["reason"])
	}
}

// fake writes a program that answers as a bubblewrap would: body runs when a sandbox is
// asked for, with the words of the command line in "$@".
func fake(t *testing.T, version, body string) string {
	t.Helper()
	name := filepath.Join(testbox.TempDir(t), "bwrap")
	script := "#!/bin/sh\nif [ \"$*\" = --version ]; then echo '" + version + "'; exit; fi\n" + body
	if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

const (
	works   = "[ \"$1\" = --args ] && { echo '{\"exit-code\": 0}' >&4; exit; }\n"
	follows = `while [ $# -gt 0 ]; do [ "$1" = --tmpfs ] && p=$2; shift; done
target=$(readlink "${p%/*}") && mkdir "${target#/oldroot}/${p##*/}"`
	lacks = "grep -qa -e %s /proc/self/fd/3 && { echo 'bwrap: Unknown option %s' >&2; exit 1; }\n"
)

// The version says nothing: the fault is found, and not found, by what a program does.
func TestProbeGoesByBehaviour(t *testing.T) {
	for _, tc := range []struct {
		name, version, body string
		want                Findings
		reason              Reason
	}{
		{
			name: "new and faulty", version: "bubblewrap 99.0", body: works + follows,
			want: Findings{DisableUserns: true, Size: true, CreatesThroughLinks: true},
		},
		{
			name: "old and mended", version: "bubblewrap 0.1.0", body: works + "exit 1",
			want: Findings{DisableUserns: true, Size: true},
		},
		{
			name: "without limits", version: "bubblewrap 99.0",
			body: strings.ReplaceAll(lacks, "%s", "--disable-userns") + strings.ReplaceAll(lacks, "%s", "--size") + works + "exit 1",
		},
		{name: "too old", version: "bubblewrap 99.0", body: strings.ReplaceAll(lacks, "%s", "--as-pid-1"), reason: TooOld},
		{name: "another program", version: "busybox", reason: NotBubblewrap},
		{name: "no status", version: "bubblewrap 0.8.0", body: "exit 0", reason: Broken},
		{name: "broken", version: "bubblewrap 0.8.0", body: "exit 1", reason: Broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program, dir := fake(t, tc.version, tc.body), testbox.TempDir(t)
			got, err := Probe(t.Context(), program, dir)
			if e, ok := errors.AsType[*ProbeError](err); tc.reason != "" {
				if !ok || e.Reason != tc.reason || e.Remedy == "" {
					t.Fatalf("Probe: %v, want the reason %q and a remedy", err, tc.reason)
				}
				return
			}
			tc.want.Program, tc.want.Version = program, tc.version
			if err != nil || got != tc.want {
				t.Errorf("Probe = %+v, %v; want %+v", got, err, tc.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("the probe left %v, %v", left, err)
			}
		})
	}
}

func TestProbeRefuses(t *testing.T) {
	plain := filepath.Join(testbox.TempDir(t), "plain")
	if err := os.WriteFile(plain, []byte("bubblewrap"), 0o644); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]Reason{"/nonexistent/bwrap": Missing, plain: NotExecutable} {
		_, err := Probe(t.Context(), program, t.TempDir())
		if e, ok := errors.AsType[*ProbeError](err); !ok || e.Reason != want || !strings.Contains(e.Error(), "install") {
			t.Errorf("Probe(%q): %v, want the reason %q", program, err, want)
		}
	}
	for _, program := range []string{"", "bwrap", "/usr/../bin/bwrap", "/a\x00"} {
		if _, err := Probe(t.Context(), program, t.TempDir()); err == nil {
			t.Errorf("Probe(%q) succeeded, want a refusal", program)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Probe(ctx, fake(t, "bubblewrap 0.8.0", works), t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("Probe with a context that ended: %v", err)
	}
}

func TestDiagnose(t *testing.T) {
	for _, tc := range []struct {
		name, output string
		switches     map[string]string
		want         Reason
		remedy       string
	}{
		{
			"Ubuntu, uid map", "bwrap: setting up uid map: Permission denied\n",
			map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1", "user/max_user_namespaces": "15000"},
			AppArmor, "apparmor_parser",
		},
		{
			"Ubuntu, loopback", "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n",
			map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1"},
			AppArmor, "deploy/apparmor/sbxd",
		},
		{
			"old Debian", "bwrap: No permissions to creating new namespace, likely because ...",
			map[string]string{"kernel/unprivileged_userns_clone": "0"},
			NoUserns, "unprivileged_userns_clone=1",
		},
		{
			"no namespaces left", "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
			map[string]string{"user/max_user_namespaces": "0"},
			NoUserns, "max_user_namespaces=15000",
		},
		{"container's filter", "bwrap: No permissions to creating new namespace", nil, NoUserns, "container"},
		{"container's proc", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted", nil, ProcCovered, "systempaths"},
		{"old", "bwrap: Unknown option --json-status-fd\n", nil, TooOld, "0.6.1"},
		{"anything", "bwrap: something else", nil, Broken, "doctor"},
		{"a flood", strings.Repeat("x\n", 100000), nil, Broken, "doctor"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := diagnose("/usr/bin/bwrap", tc.output, func(name string) string { return tc.switches[name] })
			if e.Reason != tc.want || !strings.Contains(e.Remedy, tc.remedy) {
				t.Errorf("diagnose = %v, want %q with %q", e, tc.want, tc.remedy)
			}
			if n := len(e.Error()); n > 700 || strings.Contains(e.Error(), "\n") {
				t.Errorf("the error is not one short line: %d bytes", n)
			}
		})
	}
}

func TestIdentityFollowsTheFile(t *testing.T) {
	name := fake(t, "bubblewrap 1", "")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	was, err := Identify(link)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Identify(name); err != nil || again != was {
		t.Errorf("Identify = %v, %v; want %v by both names", again, err, was)
	}
	if err := exec.CommandContext(t.Context(), "cp", name, name+".new").Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	if now, err := Identify(link); err != nil || now == was {
		t.Errorf("Identify after an upgrade = %v, %v; want another", now, err)
	}
	if _, err := Identify("/nonexistent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Identify of nothing: %v", err)
	}
}
