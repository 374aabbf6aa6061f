package testbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// uid is the unprivileged user and group of tests that start as root. It has no
// passwd entry, on purpose.
const uid = 12345

// AsUser returns the ids that unprivileged parts of a test run with: 12345 when
// the test runs as root, else its own.
func AsUser(t testing.TB) (int, int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Geteuid(), os.Getegid()
	}
	Need(t, "unprivileged")
	return uid, uid
}

// TempDir returns a new directory with a short path below /tmp, mode 0755 and
// owned by AsUser's uid, so that both sides of a test reach it. It is removed at
// the end; a mount that is then still below it fails the test.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(Root(), "") //nolint:usetesting // t.TempDir is closed to other uids, and long
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	_ = os.Chmod(dir, 0o755)
	if u, g := AsUser(t); os.Geteuid() == 0 {
		if err := os.Chown(dir, u, g); err != nil {
			t.Fatalf("give the directory away: %v", err)
		}
	}
	t.Cleanup(func() { removeDir(t, dir) })
	return dir
}

func removeDir(t testing.TB, dir string) {
	for _, point := range MountsBelow(dir) {
		t.Errorf("the test left a mount at %q", point)
		_ = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if len(MountsBelow(dir)) > 0 {
		return
	}
	if err := os.RemoveAll(dir); err == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(p string, e os.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("remove the test's directory: %v", err)
	}
}

// UserCommand returns a command that runs as AsUser's uid with an environment of
// its own: PATH, HOME (a new directory of that uid) and the temporary directory.
func UserCommand(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	AsUser(t)
	home := TempDir(t)
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LC_ALL=C"}
	cmd.Dir = home
	cmd.SysProcAttr = asUser(os.Geteuid() == 0)
	return cmd
}

func asUser(change bool) *syscall.SysProcAttr {
	if !change {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}
