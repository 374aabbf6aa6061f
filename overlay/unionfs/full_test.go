package unionfs

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// onTmpfs makes the test's directories lie on a file system of a size.
func onTmpfs(t *testing.T, size string) {
	t.Helper()
	dir := testbox.TempDir(t) // t.TempDir is to be inside
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Setxattr(dir, "user.x", nil, 0); errors.Is(err, unix.EOPNOTSUPP) {
		testbox.Skip(t, "user attributes on tmpfs", "Linux 6.6 has them")
	}
	t.Setenv("TMPDIR", dir)
}

// A disk that is full refuses what does not fit, and nothing else: what a copy-up would
// have replaced stays whole, nothing half-copied is left, and what was there can be read,
// changed in place and removed.
func TestUpperIsFull(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	onTmpfs(t, "8m,nr_inodes=400")
	v := newView(t, stage{}, `head -c 3000000 /dev/zero | tr '\0' b >big; echo small >small; mkdir d; echo x >d/x`)
	v.sh(`echo own >own; mkdir made; head -c 100000 /dev/zero >keep`)
	full := func(script string) {
		t.Helper()
		out, err := exec.Command("/bin/sh", "-c", "cd "+v.P+"; "+script).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "No space left on device") {
			t.Errorf("%s: %v, %s", script, err, out)
		}
	}
	for _, script := range []string{
		`head -c 20000000 /dev/zero >fill`, `head -c 9 /dev/zero >>big`, `chmod 600 big`, `head -c 10000 /dev/zero >>keep`,
		// Inodes as well: there is no room for whiteouts and copies of directories either.
		`seq -f filled.%g 1000 | xargs mkdir`, `touch d/y`, `rm small`, `mv small other`, `touch new`, `chmod 700 d`,
	} {
		full(script)
	}
	v.sh(`test "$(tail -c 3 big)" = bbb; test "$(stat -c %s big)" = 3000000; test "$(cat small own d/x | tr -d '\n')" = smallownx
printf changed | dd of=keep conv=notrunc status=none; ls -R . >/dev/null`)
	if left := v.names(v.work); len(left) > 0 {
		t.Errorf("left in work: %q", left)
	}
	v.sh(`rm -r fill filled.*; echo more >>big; rm small; echo y >d/y; test "$(tail -c 5 big)" = more; : >big; rm keep`)
}

// A lower that is unmounted, deleted or moved under a view makes nobody hang and loses
// nothing of the upper. The view reads what it has a descriptor of, and says of the rest
// that it is gone.
func TestLowerGoesAway(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	for name, away := range map[string]func(v *view) error{
		"deleted":   func(v *view) error { return sh("/", "rm -rf "+v.lower+"/*") },
		"moved":     func(v *view) error { return os.Rename(v.lower, v.lower+".elsewhere") },
		"unmounted": func(v *view) error { return unix.Unmount(v.lower, unix.MNT_DETACH) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(t, stage{}, "")
			v.live, v.masked = true, true
			v.unmount()
			if name == "unmounted" {
				v.check(unix.Mount("tmpfs", v.lower, "tmpfs", 0, ""))
			}
			const files = "mkdir -p d/e; echo f >f; echo x >d/e/x"
			v.check(sh(v.lower, files))
			v.mount()
			v.sh(`cat f; echo own >own; ls -R >/dev/null`)
			v.check(away(v))
			done := make(chan error, 1)
			go func() {
				done <- sh(v.P, `ls -lR . >/dev/null 2>&1 || true; cat d/e/x || true; mkdir -p d/e/n || true
echo more >>own; test "$(cat own)" = "$(printf 'own\nmore')"; echo new >new`)
			}()
			select {
			case err := <-done:
				v.check(err)
			case <-time.After(20 * time.Second):
				t.Error("it hangs")
			}
			switch name { // for finish, which mounts it again
			case "moved":
				v.check(os.Rename(v.lower+".elsewhere", v.lower))
			case "unmounted":
				v.check(sh(v.lower, files))
			}
		})
	}
}
