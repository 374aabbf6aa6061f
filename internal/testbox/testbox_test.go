package testbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { Main(m) }

// TestInner is not a test: TestSuiteFails… run it in a child to break the rules.
func TestInner(t *testing.T) {
	switch os.Getenv("TESTBOX_INNER") {
	case "":
		t.Skip("run by the other tests only")
	case "process":
		// An orphan of a child: its parent is gone before the suite ends.
		if err := exec.Command("/bin/sh", "-c", "sleep 61 >/dev/null 2>&1 &").Run(); err != nil {
			t.Fatal(err)
		}
	case "mount":
		dir := filepath.Join(Root(), "a b")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
			t.Fatal(err)
		}
	case "missing":
		Need(t, "no-such-program-here")
	}
}

func inner(t *testing.T, what string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestInner$", "-test.v")
	cmd.Env = append(os.Environ(), "TESTBOX_INNER="+what)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestSuiteFailsWhenAProcessStays(t *testing.T) {
	out, err := inner(t, "process")
	if err == nil || !strings.Contains(out, `sleep 61`) {
		t.Errorf("a suite that left a process: error %v, output %s", err, out)
	}
}

func TestSuiteFailsWhenAMountStays(t *testing.T) {
	if !Unshared(t) {
		return
	}
	out, err := inner(t, "mount")
	if err == nil || !strings.Contains(out, `/a b"`) {
		t.Errorf("a suite that left a mount: error %v, output %s", err, out)
	}
}

func TestNeedSkipsAndStrictFails(t *testing.T) {
	out, err := inner(t, "missing", "SBXD_TEST_STRICT=")
	if err != nil || !strings.Contains(out, "no-such-program-here is not installed") {
		t.Errorf("skip: error %v, output %s", err, out)
	}
	if out, err := inner(t, "missing", "SBXD_TEST_STRICT=1"); err == nil {
		t.Errorf("strict: no error, output %s", out)
	}
}

func TestUserCommandIsUnprivileged(t *testing.T) {
	out, err := UserCommand(t, "/bin/sh", "-c", "id -u; touch $HOME/x && echo made").CombinedOutput()
	if err != nil || strings.HasPrefix(string(out), "0\n") || !strings.Contains(string(out), "made") {
		t.Errorf("got %q, %v, want a uid other than 0 that can write its HOME", out, err)
	}
}

func TestUnsharedIsRootOfItsOwnNamespaces(t *testing.T) {
	host, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	if !Unshared(t) {
		return
	}
	if os.Geteuid() != 0 {
		t.Errorf("uid = %d, want 0", os.Geteuid())
	}
	if err := unix.Mount("tmpfs", Root(), "tmpfs", 0, "size=4k"); err != nil {
		t.Errorf("mount a tmpfs: %v", err)
	}
	if err := unix.Unmount(Root(), 0); err != nil {
		t.Errorf("unmount: %v", err)
	}
	t.Log(host)
}

func TestUnprivilegedIsNotRoot(t *testing.T) {
	if !Unprivileged(t) {
		return
	}
	if os.Geteuid() == 0 {
		t.Error("uid = 0, want another")
	}
	if err := os.WriteFile(filepath.Join(TempDir(t), "x"), nil, 0o600); err != nil {
		t.Error(err)
	}
}
