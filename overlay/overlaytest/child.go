package overlaytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// insideEnv is set in the process that has namespaces of its own.
const insideEnv = "SBXD_OVERLAYTEST_INSIDE"

func inside() bool { return os.Getenv(insideEnv) != "" }

// lastCap is the highest capability to look for; the kernel refuses those it
// does not know (CAP_CHECKPOINT_RESTORE is 40 in Linux 5.9 to 6.18).
const lastCap = 40

// patience is how long the suite may take with one identity; it takes seconds,
// and what hangs then says where.
const patience = "5m"

// outside runs the calling subtest again as uid, in user and mount namespaces in
// which that uid is itself and has every capability: what a session's holder is.
func outside(t *testing.T, uid int) {
	var caps []uintptr
	for c := range uintptr(lastCap + 1) {
		caps = append(caps, c)
	}
	args := []string{"-test.v", "-test.count=1", "-test.timeout=" + patience, "-test.run=" + pattern(t)}
	for _, a := range os.Args {
		if strings.HasPrefix(a, "-rapid.") {
			args = append(args, a)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Dir = t.TempDir() // rapid keeps failures there
	if os.Geteuid() == 0 {
		for _, d := range []string{filepath.Dir(cmd.Dir), cmd.Dir} {
			if err := os.Chown(d, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.Env = append(os.Environ(), insideEnv+"=1", "HOME=/nonexistent", "LC_ALL=C")
	if f, ok := foreignFile(t, uid); ok {
		cmd.Env = append(cmd.Env, foreignEnv+"="+f)
	}
	one := []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: one, GidMappings: one,
		AmbientCaps: caps,
	}
	if uid != os.Geteuid() {
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+rootName(t)):
		t.Errorf("the suite did not run:\n%s", out)
	default:
		t.Logf("%s", out)
	}
}

func rootName(t *testing.T) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// pattern names this subtest, and below it what the user's -run names.
func pattern(t *testing.T) string {
	var parts []string
	for p := range strings.SplitSeq(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(p)+"$")
	}
	for _, a := range os.Args {
		run, ok := strings.CutPrefix(a, "-test.run=")
		if asked := strings.Split(run, "/"); ok && len(asked) > len(parts) {
			parts = append(parts, asked[len(parts):]...)
		}
	}
	return strings.Join(parts, "/")
}

// asAgent runs f as an agent would: the same uid, no capabilities, and none to
// be had by executing something. The thread ends with it.
func asAgent(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := dropCapabilities(); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := range uintptr(lastCap + 1) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&hdr, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// script runs a shell script as an agent, with -e and -u, and returns an error
// that holds its output.
func script(dir, text string, env ...string) error {
	return asAgent(func() error {
		cmd := exec.Command("/bin/sh", "-euc", text)
		cmd.Dir = dir
		cmd.Env = append([]string{
			"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/nonexistent",
			"GIT_CONFIG_NOSYSTEM=1", "PYTHONDONTWRITEBYTECODE=1",
		}, env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// foreignEnv names a directory with a file of an owner that the namespace does
// not map.
const foreignEnv = "SBXD_OVERLAYTEST_FOREIGN"

func foreignFile(t *testing.T, uid int) (string, bool) {
	if os.Geteuid() != 0 || uid == 0 {
		return "", false
	}
	dir := testbox.TempDir(t)
	for _, n := range []string{"file", "gone"} {
		if err := os.WriteFile(dir+"/"+n, []byte("foreign\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+"/"+n, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir, true
}
