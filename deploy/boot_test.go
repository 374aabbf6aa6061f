package deploy_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

//go:embed testdata/boot.sh
var bootScript string

// bootTime bounds the boot and the script; both together take some ten seconds.
const bootTime = 3 * time.Minute

// TestSessionSurvivesARestartOfTheService boots a machine of its own: systemd as pid 1,
// this system's /usr with our installed files over it, and a script that says what
// happened. Only there are the units what really starts the daemon.
func TestSessionSurvivesARestartOfTheService(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	testbox.Need(t, "root", "systemd-nspawn", "go", "bwrap", "userns", "overlay-userns")
	root := testbox.TempDir(t)
	install(t, root+"/install")
	machine := root + "/root"
	populate(t, machine)
	rc, log := boot(t, machine, root+"/install/usr")
	if rc == "" {
		testbox.Skip(t, "systemd-nspawn-boot", "systemd-nspawn does not boot here:\n"+log)
	}
	b, err := os.ReadFile(machine + "/result/log")
	must(t, err)
	t.Logf("%s", b)
	if rc != "0" {
		t.Errorf("the script ended with %s", rc)
	}
}

// install puts the files where `make install` puts them.
func install(t *testing.T, dest string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dest+"/usr/bin/sbxd", "github.com/sbxd/sbxd/cmd/sbxd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for from, to := range map[string]string{
		"sbxd.service":      "lib/systemd/system/sbxd.service",
		"user/sbxd.service": "lib/systemd/user/sbxd.service",
		"tmpfiles.conf":     "lib/tmpfiles.d/sbxd.conf",
	} {
		b, err := os.ReadFile(from)
		must(t, err)
		put(t, dest+"/usr/"+to, string(b))
	}
}

// populate makes the root of a machine: nothing but links into /usr, two users, and one
// service that runs the script and ends the machine.
func populate(t *testing.T, root string) {
	t.Helper()
	for _, d := range []string{"usr", "etc", "var/lib", "var/tmp", "var/log", "run", "tmp", "root", "proc", "sys", "dev", "home/u", "result"} {
		must(t, os.MkdirAll(root+"/"+d, 0o755))
	}
	must(t, os.Chmod(root+"/var/tmp", 0o1777|os.ModeSticky))
	must(t, os.Chown(root+"/home/u", 1000, 1000))
	for _, d := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if _, err := os.Stat("/usr/" + d); err == nil {
			must(t, os.Symlink("usr/"+d, root+"/"+d))
		}
	}
	put(t, root+"/etc/os-release", "ID=test\nNAME=test\n")
	put(t, root+"/etc/machine-id", strings.Repeat("a", 32)+"\n")
	put(t, root+"/etc/passwd", "root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
	put(t, root+"/etc/group", "root:x:0:\nu:x:1000:\nnogroup:x:65534:\n")
	put(t, root+"/etc/sbxd/config.toml", "run_as = \"u\"\n")
	put(t, root+"/etc/boot.sh", bootScript)
	put(t, root+"/etc/systemd/system/boot-test.service", `[Unit]
Requires=basic.target
After=basic.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'sh -x /etc/boot.sh >/result/log 2>&1; echo $? >/result/rc'
TimeoutStartSec=120
`)
	must(t, os.Symlink("boot-test.service", root+"/etc/systemd/system/default.target"))
}

// boot runs the machine to its end. rc is empty when the script never ran.
func boot(t *testing.T, machine, usr string) (rc, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	name := "sbxd-test-" + fmt.Sprint(os.Getpid())
	args := []string{
		"--directory=" + machine, "--machine=" + name, "--overlay-ro=/usr:" + usr + ":/usr",
		"--register=no", "--private-network", "--console=pipe", "--boot",
		"--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		args = append([]string{"--keep-unit"}, args...) // no systemd here that could give us a scope
	}
	cmd := exec.CommandContext(ctx, "systemd-nspawn", append(args, "systemd.unit=boot-test.service", "systemd.log_target=console")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE=1")
	before := cgroups(t)
	out, err := cmd.CombinedOutput()
	t.Cleanup(func() { removeNew(before); _ = os.Remove("/run/systemd/nspawn/propagate/" + name) })
	b, rerr := os.ReadFile(machine + "/result/rc")
	if rerr != nil {
		return "", fmt.Sprintf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(b)), string(out)
}

// cgroups lists the groups that are there. Where nspawn has nobody to clean up after it,
// it leaves two empty ones with what was in them.
func cgroups(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	walkCgroups(func(p string) { out[p] = true })
	return out
}

func removeNew(before map[string]bool) {
	var left []string
	walkCgroups(func(p string) {
		if !before[p] && (strings.Contains(p+"/", "/payload/") || strings.Contains(p+"/", "/supervisor/")) {
			left = append(left, p)
		}
	})
	for i := len(left) - 1; i >= 0; i-- {
		_ = os.Remove(left[i]) // refused while a process is in it
	}
}

func walkCgroups(f func(path string)) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			f(p)
		}
		return nil
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}
