package testbox

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// again names, in the environment, the test that runs a second time.
const again = "SBXD_TESTBOX_AGAIN"

// Unshared runs the calling test again, in a new process that is root of its own
// user and mount namespace with nothing propagated, and reports whether this is
// that process:
//
//	if !testbox.Unshared(t) {
//		return
//	}
//
// Namespaces belong to threads, so a test must not unshare in place. Mounts made
// inside vanish with the process. The test needs "userns".
func Unshared(t *testing.T) bool {
	t.Helper()
	if os.Getenv(again) == t.Name() {
		return true
	}
	Need(t, "userns")
	size := 1
	if os.Geteuid() == 0 {
		size = 65536
	}
	rerun(t, "in namespaces of its own", os.Environ(), &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: size}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: size}},
		GidMappingsEnableSetgroups: size > 1,
	})
	return false
}

// Unprivileged runs the calling test again as AsUser's uid, in the manner of
// Unshared, unless it already is unprivileged.
func Unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	cmd := UserCommand(t, "/bin/true")
	rerun(t, "as an unprivileged user", cmd.Env, cmd.SysProcAttr)
	return false
}

// rerun runs the calling test, and nothing else, in a new process and takes over
// its outcome.
func rerun(t *testing.T, how string, env []string, attr *syscall.SysProcAttr) {
	t.Helper()
	var parts []string
	for _, p := range strings.Split(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(p)+"$")
	}
	attr.Pdeathsig = syscall.SIGKILL
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.count=1", "-test.run="+strings.Join(parts, "/"))
	cmd.Env = append(env, again+"="+t.Name())
	cmd.Dir = "/"
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%s: %v\n%s", how, err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s:\n%s", how, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("%s the test did not run:\n%s", how, out)
	default:
		t.Logf("%s:\n%s", how, out)
	}
}
