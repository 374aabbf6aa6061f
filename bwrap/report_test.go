package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/landlock"
	"github.com/sbxd/sbxd/internal/testbox"
)

// exit ends with as many as it has arguments.
func exit(_ results, args []string) error {
	os.Exit(len(args))
	return nil
}

// thenLandlock is what the guest does: restrict this thread, become the rest.
func thenLandlock(_ results, args []string) error {
	if err := landlock.Restrict(landlock.Options{}); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", append([]string{"test", "stage"}, args...), os.Environ())
}

// report looks at everything that a payload can find out about its cage.
func report(res results, _ []string) error {
	for _, line := range strings.Split(read("/proc/self/status"), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			res["status "+k] = strings.Join(strings.Fields(v), " ")
		}
	}
	for _, dir := range []string{"/", "/usr", "/etc", "/run", "/run/sbxbin", "/dev", "/proc", "/proc/sys"} {
		err := os.WriteFile(filepath.Join(dir, "sbxd-probe"), nil, 0o600)
		res.add("write "+dir, errors.Unwrap(err))
	}
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		res.add("write "+dir, os.WriteFile(filepath.Join(dir, "sbxd-probe"), nil, 0o600))
	}
	res["cmdline 1"] = strings.ReplaceAll(read("/proc/1/cmdline"), "\x00", " ")
	res["environ 1"] = strings.ReplaceAll(read("/proc/1/environ"), "\x00", " ")
	res["fds"] = strings.Join(descriptors(), " ")
	res["mountinfo"] = read("/proc/self/mountinfo")
	res["limits"] = read("/proc/self/limits")
	res["oom"] = strings.TrimSpace(read("/proc/self/oom_score_adj"))
	res["hostname"], _ = os.Hostname()
	res["cwd"], _ = os.Getwd()
	res["pid"] = fmt.Sprint(os.Getpid())
	res["sid"] = fmt.Sprint(unix.Getsid(0))
	res["uid"] = fmt.Sprint(os.Getuid())
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil {
		return err
	}
	res["shm"] = fmt.Sprint(int64(st.Blocks) * st.Bsize)
	_, err := os.OpenFile("/proc/sys/kernel/core_pattern", os.O_WRONLY, 0)
	res.add("core_pattern", errors.Unwrap(err))
	bytes, err := unix.KeyctlInt(unix.KEYCTL_READ, unix.KEY_SPEC_SESSION_KEYRING, 0, 0, 0)
	res.add("keyctl", err)
	res["keyring bytes"] = fmt.Sprint(bytes)
	_, err = os.ReadFile("/proc/keys")
	res.add("keys", errors.Unwrap(err))
	return nil
}

func read(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// descriptors lists the open ones but for what the Go runtime and the listing open.
func descriptors() []string {
	var out []string
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:") || strings.HasSuffix(target, "/fd") {
			continue
		}
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

// TestHolderBecomesBubblewrap is the proof of the whole scheme: an unprivileged process
// in its own user, mount and network namespaces builds a root and execs bubblewrap, and
// what runs inside has nothing but that.
func TestHolderBecomesBubblewrap(t *testing.T) {
	uid, _ := testbox.AsUser(t)
	erofs, none := unix.EROFS.Error(), "0000000000000000"
	got := inside(t, scene{Guest: []string{"report"}, Leak: true, Keyring: true})
	expect(t, got, map[string]string{
		"write /": erofs, "write /usr": erofs, "write /etc": erofs, "write /run": erofs, "write /run/sbxbin": erofs,
		"write /dev": erofs, "write /proc": unix.ENOENT.Error(), "write /proc/sys": unix.ENOENT.Error(),
		"write /tmp": "ok", "write /dev/shm": "ok",
		"status CapInh": none, "status CapPrm": none, "status CapEff": none, "status CapBnd": none, "status CapAmb": none,
		"status NoNewPrivs": "1", "status Seccomp": "2", "status Seccomp_filters": "1",
		"status SigIgn": none, "status SigBlk": none, "status Umask": "0022", "status PPid": "0",
		"cmdline 1": "/run/sbxbin/test stage report ", "environ 1": "PWD=/ ",
		"fds": "0 1 2", "hostname": DefaultHostname, "cwd": "/", "pid": "1", "uid": fmt.Sprint(uid),
		"oom":          fmt.Sprint(oomScore),
		"core_pattern": unix.EACCES.Error(), "keyctl": unix.EPERM.Error(), "keys": unix.EACCES.Error(),
	})
	if abilities(t).Size && got["shm"] != fmt.Sprint(DefaultShmSize) {
		t.Errorf("/dev/shm has %s bytes, want %d", got["shm"], DefaultShmSize)
	}
	if !strings.Contains(got["limits"], "Max core file size        0                    0") {
		t.Errorf("core dumps are possible:\n%s", got["limits"])
	}
	for _, line := range strings.Split(got["mountinfo"], "\n") {
		if strings.Contains(line, " master:") || strings.Contains(line, " shared:") {
			t.Errorf("a mount has peers outside: %s", line)
		}
	}
}

// Without the filter the keyring itself can be looked at: the shim's key is not in it.
func TestSessionKeyringIsEmpty(t *testing.T) {
	got := inside(t, scene{Guest: []string{"report"}, NoSeccomp: true, Keyring: true})
	expect(t, got, map[string]string{"keyctl": "ok", "keyring bytes": "0"})
}

// What bubblewrap says when a holder keeps its capabilities. It documents why Harden
// drops them, and fails when a version no longer minds.
func TestBubblewrapRefusesCapabilities(t *testing.T) {
	o := stage(t, scene{Guest: []string{"report"}, KeepCap: true})
	if o.code == 0 || !strings.Contains(o.stderr, "Unexpected capabilities") {
		t.Errorf("exit code %d, %q; want a refusal", o.code, o.stderr)
	}
}

func TestStatusTellsAnExitFromNeverRan(t *testing.T) {
	o := stage(t, scene{Guest: []string{"exit", "a", "b", "c"}})
	if len(o.status) != 2 || o.status[1]["exit-code"] != 3.0 || o.code != 3 {
		t.Errorf("status %v, exit code %d; want two lines and 3", o.status, o.code)
	}
	if pid, _ := o.status[0]["child-pid"].(float64); pid < 2 {
		t.Errorf("the first line names child-pid %v", o.status[0])
	}
	o = stage(t, scene{Program: "/nonexistent/bwrap", Guest: []string{"exit"}})
	if len(o.status) != 0 || o.code == 0 || !strings.Contains(o.stderr, "/nonexistent/bwrap") {
		t.Errorf("missing program: status %v, exit code %d, %q", o.status, o.code, o.stderr)
	}
}
