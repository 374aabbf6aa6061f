package testbox

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const unshared = "SBXD_TESTBOX_UNSHARED"

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
	if os.Getenv(unshared) == t.Name() {
		return true
	}
	Need(t, "userns")
	var parts []string
	for _, p := range strings.Split(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(p)+"$")
	}
	size := 1
	if os.Geteuid() == 0 {
		size = 65536
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.count=1", "-test.run="+strings.Join(parts, "/"))
	cmd.Env = append(os.Environ(), unshared+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: hostID(os.Geteuid()), Size: size}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: hostID(os.Getegid()), Size: size}},
		GidMappingsEnableSetgroups: size > 1,
		Pdeathsig:                  syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("in namespaces of its own: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("in namespaces of its own:\n%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("the test did not run in namespaces of its own:\n%s", out)
	default:
		t.Log(fmt.Sprintf("in namespaces of its own:\n%s", out))
	}
	return false
}

func hostID(id int) int {
	if os.Geteuid() == 0 {
		return 0
	}
	return id
}
