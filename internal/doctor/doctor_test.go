package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/probe"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/kernel"
	"github.com/sbxd/sbxd/overlay/unionfs"
)

func TestMain(m *testing.M) {
	if stage, ok := map[string]func(){
		kernel.ProbeStage: kernel.ProbeMain, unionfs.ProbeServeStage: unionfs.ProbeServeMain, unionfs.ProbeStage: unionfs.ProbeMain,
	}[os.Getenv("SBXD_STAGE")]; ok {
		stage()
		os.Exit(0)
	}
	testbox.Main(m)
}

func names(checks []Check) []string {
	var out []string
	for _, c := range checks {
		out = append(out, c.Name)
	}
	return out
}

func TestRunAnswersEverythingAndLeavesNothing(t *testing.T) {
	state := testbox.TempDir(t)
	if os.Geteuid() == 0 {
		if err := os.Chown(state, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	uid, gid := testbox.AsUser(t)
	checks := Run(t.Context(), Options{State: state, UID: uid, GID: gid})
	want := []string{
		"kernel", "bwrap", "userns", "overlay", "unionfs", "state-root", "state-fs", "landlock", "seccomp-notify",
		"cgroup", "fuse", "tun", "inotify", "clock",
	}
	if diff := cmp.Diff(want, names(checks)); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	for _, c := range checks {
		t.Logf("%-14s %-8s %s | %s", c.Name, c.Status, c.Detail, c.Remedy)
		if c.Status != OK && (c.Remedy == "" || c.Detail == "") {
			t.Errorf("%s is %s without a detail or a remedy", c.Name, c.Status)
		}
		if c.Status == OK && c.Remedy != "" {
			t.Errorf("%s is ok and has the remedy %q", c.Name, c.Remedy)
		}
		if strings.Contains(c.Detail+c.Remedy, "\n") {
			t.Errorf("%s says more than a line: %q %q", c.Name, c.Detail, c.Remedy)
		}
	}
	left, err := os.ReadDir(state)
	if err != nil || len(left) != 0 {
		t.Errorf("the state root holds %v (%v) afterwards, want nothing", left, err)
	}
}

// What tests skip and what doctor says come from the same probes.
func TestDoctorAgreesWithTestbox(t *testing.T) {
	testbox.Need(t, "bwrap", "userns")
	uid, gid := testbox.AsUser(t)
	state := testbox.TempDir(t)
	checks := Run(t.Context(), Options{State: state + "/state", UID: uid, GID: gid})
	for _, c := range checks {
		if (c.Name == "bwrap" || c.Name == "userns" || c.Name == "kernel") && c.Status == Missing {
			t.Errorf("%s is missing (%s) where the tests run", c.Name, c.Detail)
		}
	}
}

func noSysctl(string) string { return "" }

func with(key, value string) func(string) string {
	return func(k string) string {
		if k == key {
			return value
		}
		return ""
	}
}

// verdict is a check in short.
func verdict(c Check) string { return fmt.Sprintf("%s %v", c.Status, c.Needed) }

func TestJudgements(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/dev/fuse", Err: unix.EACCES}
	big := probe.FS{Type: "ext4", Free: 1 << 40}
	tests := map[string]struct {
		got  Check
		want string // verdict
		says string // part of detail or remedy
	}{
		"kernel":            {kernelVersion("6.1.0-13-amd64"), "ok true", "6.1.0"},
		"kernel floor":      {kernelVersion("5.15.0"), "ok true", ""},
		"old kernel":        {kernelVersion("5.14.21"), "missing true", "5.15"},
		"odd kernel":        {kernelVersion("x"), "degraded false", "5.15"},
		"userns":            {judgeUserns(nil, 7, noSysctl), "ok true", "uid 7"},
		"userns none":       {judgeUserns(unix.ENOSPC, 7, with("user/max_user_namespaces", "0")), "missing true", "user.max_user_namespaces=15000"},
		"userns Debian":     {judgeUserns(unix.EPERM, 7, with("kernel/unprivileged_userns_clone", "0")), "missing true", "kernel.unprivileged_userns_clone=1"},
		"userns AppArmor":   {judgeUserns(unix.EACCES, 7, with("kernel/apparmor_restrict_unprivileged_userns", "1")), "missing true", "apparmor_parser -r"},
		"userns container":  {judgeUserns(unix.EPERM, 7, noSysctl), "missing true", "seccomp"},
		"userns let":        {judgeUserns(nil, 7, with("kernel/apparmor_restrict_unprivileged_userns", "1")), "ok true", "AppArmor"},
		"landlock":          {judgeLandlock(7, nil), "ok false", ""},
		"landlock scope":    {judgeLandlock(4, nil), "degraded false", "--network open"},
		"landlock rename":   {judgeLandlock(1, nil), "missing false", "rename"},
		"landlock none":     {judgeLandlock(0, errors.New("no landlock")), "missing false", "lsm="},
		"fuse":              {judgeDevice("fuse", "/dev/fuse", "fuse", nil, ""), "ok false", ""},
		"fuse denied":       {judgeDevice("fuse", "/dev/fuse", "fuse", denied, ""), "missing false", "chmod 0666 /dev/fuse"},
		"fuse none":         {judgeDevice("fuse", "/dev/fuse", "fuse", fs.ErrNotExist, ""), "missing false", "modprobe fuse"},
		"inotify low":       {inotify(with("fs/inotify/max_user_instances", "1")), "missing false", "INOTIFY"},
		"inotify":           {inotify(func(string) string { return "8192" }), "ok false", ""},
		"inotify few":       {inotify(func(string) string { return "20" }), "degraded false", "max_user_watches=20"},
		"clock":             {clock(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)), "ok false", ""},
		"clock of 1970":     {clock(time.Unix(100, 0)), "degraded false", "1970"},
		"bwrap":             {judgeBwrap(bwrap.Findings{Program: "/b", Version: "bubblewrap 1", DisableUserns: true, Size: true}, nil), "ok true", "bubblewrap 1"},
		"bwrap weak":        {judgeBwrap(bwrap.Findings{Size: true, CreatesThroughLinks: true}, nil), "degraded true", "CVE-2026-87766"},
		"bwrap missing":     {judgeBwrap(bwrap.Findings{}, &bwrap.ProbeError{Program: "/b", Reason: bwrap.Missing, Remedy: "install it"}), "missing true", "install it"},
		"overlay":           {judgeOverlay("/s", nil), "ok true", "/s"},
		"unionfs":           {judgeUnion("/s", nil), "ok false", "/s"},
		"unionfs none":      {judgeUnion("/s", &overlay.ProbeError{Step: "device", Err: unix.ENOENT, Remedy: "do that"}), "missing false", "do that"},
		"overlay none":      {judgeOverlay("/s", &overlay.ProbeError{Step: "mount", Err: unix.EINVAL}), "missing true", "ext4"},
		"overlay remedy":    {judgeOverlay("/s", &overlay.ProbeError{Step: "mount", Err: unix.EINVAL, Remedy: "do that"}), "missing true", "do that"},
		"fs":                {judgeFS("/s", big, nil), "ok true", "ext4"},
		"fs without xattrs": {judgeFS("/s", big, []string{"no user attributes"}), "missing true", "user attributes"},
		"fs full":           {judgeFS("/s", probe.FS{Type: "xfs", Free: 5 << 20}, nil), "degraded true", "5 MiB"},
		"fs in memory":      {judgeFS("/s", probe.FS{Type: "tmpfs", Free: 1 << 40}, nil), "degraded true", "next boot"},
		"fs over the net":   {judgeFS("/s", probe.FS{Type: "nfs", Free: 1 << 40}, nil), "degraded true", "local"},
	}
	for name, tc := range tests {
		if got := verdict(tc.got); got != tc.want || !strings.Contains(tc.got.Detail+" | "+tc.got.Remedy, tc.says) {
			t.Errorf("%s: %+v, want %s saying %q", name, tc.got, tc.want, tc.says)
		}
	}
	if Usable([]Check{missing("x", "", ""), ok("y", "").needed()}) != true || Usable([]Check{missing("x", "", "").needed()}) {
		t.Error("Usable does not go by what is needed and missing")
	}
}

func TestStateRoots(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir+"/good", 0o700))
	must(os.Mkdir(dir+"/open", 0o700))
	must(os.Chmod(dir+"/open", 0o777))
	must(os.WriteFile(dir+"/file", nil, 0o600))
	must(os.Symlink("good", dir+"/link"))
	for name, tc := range map[string]struct {
		state string
		want  Status
		says  string
	}{
		"good":       {dir + "/good", OK, ""},
		"open":       {dir + "/open", Missing, "0777"},
		"file":       {dir + "/file", Missing, "not a directory"},
		"below file": {dir + "/file/x", Missing, "not a directory"},
		"link":       {dir + "/link", Missing, "link"},
		"not there":  {dir + "/a/b/c", OK, "not there yet"},
		"relative":   {"a/b", Missing, ""},
	} {
		c := stateRoot(Options{State: tc.state})
		// A cleaner of /tmp makes it degraded on some machines.
		if c.Status != tc.want && (c.Status != Degraded || tc.want != OK) || !strings.Contains(c.Detail, tc.says) {
			t.Errorf("%s: %+v, want %s saying %q", name, c, tc.want, tc.says)
		}
	}
	if os.Geteuid() == 0 {
		if c := stateRoot(Options{State: testbox.TempDir(t)}); c.Status != Missing || !strings.Contains(c.Detail, "belongs to") {
			t.Errorf("somebody else's: %+v", c)
		}
	}
}

func TestCleanersOfOldFiles(t *testing.T) {
	dir := t.TempDir()
	old := cleaners
	cleaners = []string{dir + "/etc", dir + "/lib"}
	t.Cleanup(func() { cleaners = old })
	put := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+"/"+name), 0o700), os.WriteFile(dir+"/"+name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const state = "/var/tmp/sbxd-7"
	if c := cleaned("n", state, "x"); c.Status != OK {
		t.Errorf("no cleaner: %+v", c)
	}
	put("lib/tmp.conf", "# comment\nq /tmp 1777 root root 10d\nq /var/tmp 1777 root root 30d\n")
	if c := cleaned("n", state, "x"); c.Status != Degraded {
		t.Errorf("a cleaner: %+v", c)
	}
	if c := cleaned("n", "/var/lib/sbxd", "x"); c.Status != OK {
		t.Errorf("elsewhere: %+v", c)
	}
	put("lib/sbxd.conf", "x /var/tmp/sbxd-*\n")
	if c := cleaned("n", state, "x"); c.Status != OK {
		t.Errorf("excluded: %+v", c)
	}
	put("etc/sbxd.conf", "")
	if c := cleaned("n", state, "x"); c.Status != Degraded {
		t.Errorf("the exclusion masked: %+v", c)
	}
	put("etc/tmp.conf", "q /var/tmp 1777 root root -\n")
	if c := cleaned("n", state, "x"); c.Status != OK {
		t.Errorf("the age taken away: %+v", c)
	}
}

func TestCgroups(t *testing.T) {
	root := t.TempDir()
	own := root + "/user/sbxd"
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const line = "0::/user/sbxd\n"
	if c := judgeCgroup(root, "4:memory:/x\n0::/\n", true); c.Status != Missing {
		t.Errorf("version 1: %+v", c)
	}
	put(root+"/cgroup.controllers", "cpu memory pids io\n")
	put(root+"/cgroup.procs", "")
	put(own+"/cgroup.controllers", "memory\n")
	put(own+"/cgroup.procs", "")
	if c := judgeCgroup(root, line, true); c.Status != OK {
		t.Errorf("root: %+v", c)
	}
	if c := judgeCgroup(root, line, false); c.Status != Missing || !strings.Contains(c.Detail, "cpu, pids") {
		t.Errorf("without controllers: %+v", c)
	}
	put(own+"/cgroup.controllers", "cpu memory pids\n")
	if c := judgeCgroup(root, line, false); c.Status != OK {
		t.Errorf("delegated: %+v", c)
	}
	if c := judgeCgroup(root, "no such line\n", false); c.Status != Missing {
		t.Errorf("no version 2: %+v", c)
	}
}
