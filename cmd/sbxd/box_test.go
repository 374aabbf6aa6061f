package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "attack" {
		os.Exit(attacker(os.Args[2:]))
	}
	testbox.Main(m)
}

// binary is the real command, built once, with the tags of this test binary.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(testbox.Root(), "bin", "sbxd")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", path}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				args = append(args, "-tags", s.Value)
			}
		}
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sbxd: %w\n%s", err, out)
	}
	return path, nil
})

// box is a machine of its own for one test: a state root, a socket, a HOME with a
// project, and a daemon. As root the daemon runs sessions as the unprivileged uid, to
// which HOME belongs.
type box struct {
	dir     string
	home    string
	project string
	env     []string
	runAs   []string
	uid     int
	disk    string // a mount of the test's own
	daemon  *exec.Cmd
	via     func(*exec.Cmd)     // changes how the daemon is started; may be nil
	user    *syscall.Credential // whose daemon and commands they are; nil: this process's
}

// needSession names what no session can do without.
var needSession = []string{"bwrap", "userns", "overlay-userns", "unprivileged"}

// newBox makes a box in dir, which may hold HOME and the project already.
func newBox(dir string, uid, gid int) (*box, error) {
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	b := &box{dir: dir, home: filepath.Join(dir, "home"), uid: uid}
	b.project = filepath.Join(b.home, "app")
	for _, d := range []string{b.project, filepath.Join(dir, "run"), filepath.Join(dir, "bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	owner := "#!/bin/sh\nexec \"$@\"\n"
	if os.Geteuid() == 0 {
		b.runAs = []string{"--run-as", strconv.Itoa(uid)}
		owner = fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid %d --regid %d --clear-groups \"$@\"\n", uid, gid)
		if err := errors.Join(os.Chmod(dir, 0o755), give(b.home, uid, gid)); err != nil {
			return nil, err
		}
	}
	b.env = []string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + filepath.Dir(bin) + ":" + os.Getenv("PATH"),
		"HOME=" + b.home, "LC_ALL=C", "TERM=xterm",
		"SBXD_STATE=" + filepath.Join(dir, "state"),
		"SBXD_SOCKET=" + filepath.Join(dir, "run", "sbxd.sock"),
		"SBXD_CONFIG=" + filepath.Join(dir, "config.toml"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org",
		"GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org",
	}
	for _, name := range []string{"SBXD_TEST_WITHOUT", "SBXD_FAULT"} {
		if v, ok := os.LookupEnv(name); ok {
			b.env = append(b.env, name+"="+v)
		}
	}
	return b, errors.Join(
		os.WriteFile(filepath.Join(dir, "bin", "owner"), []byte(owner), 0o755),
		os.WriteFile(filepath.Join(dir, "config.toml"), nil, 0o644),
	)
}

func give(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, uid, gid)
	})
}

func (b *box) cmd(args ...string) *exec.Cmd {
	bin, _ := binary()
	cmd := exec.Command(bin, args...)
	cmd.Env, cmd.Dir = b.env, b.project
	if b.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.user}
	}
	return cmd
}

// run runs sbxd and returns its output without the last newline; the exit code has to
// be want.
func (b *box) run(t testing.TB, want int, args ...string) string {
	t.Helper()
	cmd := b.cmd(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("sbxd %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, out, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// serve starts the daemon and returns when it answers.
func (b *box) serve(extra ...string) error {
	log, err := os.OpenFile(filepath.Join(b.dir, "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	b.daemon = b.cmd(append(append([]string{"serve"}, b.runAs...), extra...)...)
	b.daemon.Dir = "/"
	b.daemon.Stdout, b.daemon.Stderr = log, log
	if b.via != nil {
		b.via(b.daemon)
	}
	if err := b.daemon.Start(); err != nil {
		return err
	}
	const patience = 10 * time.Second
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if b.cmd("list").Run() == nil {
			return nil
		}
		if b.daemon.Process.Signal(syscall.Signal(0)) != nil {
			break
		}
	}
	_ = b.end(syscall.SIGKILL)
	said, _ := os.ReadFile(log.Name())
	return fmt.Errorf("the daemon does not answer; it said:\n%s", said)
}

// end ends the daemon; its sessions live on.
func (b *box) end(sig os.Signal) error {
	if b.daemon == nil {
		return nil
	}
	err := b.daemon.Process.Signal(sig)
	_ = b.daemon.Wait()
	b.daemon = nil
	return err
}

// clean ends every session and the daemon, and names what is left.
func (b *box) clean() error {
	if b.daemon == nil {
		if err := b.serve(); err != nil {
			return err
		}
	}
	out, err := b.cmd("list", "-q").Output()
	errs := []error{err}
	for _, id := range strings.Fields(string(out)) {
		if out, err := b.cmd("rm", "--discard", id).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("rm %s: %w: %s", id, err, out))
		}
	}
	errs = append(errs, b.end(syscall.SIGTERM))
	left, err := filepath.Glob(filepath.Join(b.dir, "state", "*", "sessions", "*"))
	errs = append(errs, err)
	for _, p := range left {
		errs = append(errs, fmt.Errorf("%s is left", p))
	}
	for _, p := range testbox.MountsBelow(b.dir) {
		if p == b.disk {
			continue
		}
		errs = append(errs, fmt.Errorf("a mount at %s is left", p))
	}
	return errors.Join(errs...)
}

// served returns a box with a running daemon that is cleaned up after the test.
func served(t *testing.T) *box {
	t.Helper()
	testbox.Need(t, needSession...)
	uid, gid := testbox.AsUser(t)
	b, err := newBox(testbox.TempDir(t), uid, gid)
	if err == nil {
		err = b.serve()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.clean(); err != nil {
			t.Error(err)
		}
	})
	return b
}
