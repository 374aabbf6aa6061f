package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestCases runs testdata/cases: faults that users of other programs met, as tests of
// the real command, and the tools that agents use. Each is a machine of its own (see
// box) and a file of shell functions that lib.sh there runs and describes. A comment of
// the form "# Needs: a b" names what the case cannot do without.
func TestCases(t *testing.T) {
	testbox.Need(t, needSession...)
	testbox.Need(t, "bash")
	files, err := filepath.Glob("testdata/cases/*-*.sh")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sh"), func(t *testing.T) {
			t.Parallel()
			runCase(t, file)
		})
	}
}

var needsLine = regexp.MustCompile(`(?m)^# Needs: (.+)$`)

func runCase(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if m := needsLine.FindSubmatch(text); m != nil {
		for _, thing := range strings.Fields(string(m[1])) {
			needForCase(t, thing)
		}
	}
	uid, gid := testbox.AsUser(t)
	b, err := newBox(testbox.TempDir(t), uid, gid)
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(b.dir, "w"), 0o755), give(filepath.Join(b.dir, "w"), uid, gid))
	}
	if err == nil {
		err = b.serve()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.cleanCase(); err != nil {
			t.Error(err)
		}
	}()
	lib, err := filepath.Abs("testdata/cases/lib.sh")
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", lib, abs)
	cmd.Dir, cmd.Env = b.project, append(b.env,
		"DIR="+b.dir, "W="+filepath.Join(b.dir, "w"), "PROJECT="+b.project,
		"RUN_AS="+strings.Join(b.runAs, " "), "BACKEND="+os.Getenv(testBackend), "DAEMON="+strconv.Itoa(b.daemon.Process.Pid))
	// A case that hangs ends with all that it started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(caseTime, func() { _ = cmd.Cancel() })
	defer timer.Stop()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(b.dir, "daemon.log"))
		t.Errorf("%v after %v\n%s\nthe daemon said:\n%s", err, time.Since(start).Round(time.Millisecond), &out, tail(log))
	}
}

// caseTime is how long one case may take on a busy machine; the slowest needs some ten
// seconds.
const caseTime = 3 * time.Minute

// needForCase adds to testbox.Need what no program in PATH stands for.
func needForCase(t *testing.T, thing string) {
	t.Helper()
	switch thing {
	case "network":
		if os.Getenv("SBXD_TEST_NET") != "1" {
			t.Skip("needs SBXD_TEST_NET=1: it downloads")
		}
	case "python3-venv":
		if out, err := exec.Command("/usr/bin/python3", "-c", "import ensurepip, venv").CombinedOutput(); err != nil {
			t.Skipf("needs python3-venv: %s", out)
		}
	default:
		testbox.Need(t, thing)
	}
}

func tail(log []byte) []byte {
	const enough = 4000
	return log[max(0, len(log)-enough):]
}

// cleanCase removes what the case has, and names what is left: sessions, mounts,
// processes that know of the machine, and files in the state root.
func (b *box) cleanCase() error {
	var errs []error
	if _, err := os.Lstat(filepath.Join(b.dir, "daemon.stopped")); err == nil {
		_ = b.end(syscall.SIGKILL) // the case ended it; this one collects it
	}
	errs = append(errs, os.WriteFile(filepath.Join(b.dir, "config.toml"), nil, 0o644))
	errs = append(errs, b.clean())
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := processesOf(b.dir)
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			errs = append(errs, fmt.Errorf("processes are left: %q", left))
			break
		}
	}
	err := filepath.WalkDir(filepath.Join(b.dir, "state"), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(p, b.dir+"/state/")
		if !keptFiles.MatchString(rel) {
			errs = append(errs, fmt.Errorf("the file %s is left", rel))
		}
		return nil
	})
	errs = append(errs, err)
	for _, p := range []string{b.home, b.project, filepath.Join(b.home, "second")} {
		if _, err := os.Lstat(filepath.Join(p, ".sbxd")); err == nil {
			errs = append(errs, fmt.Errorf("%s/.sbxd is left", p))
		}
	}
	return errors.Join(errs...)
}

// keptFiles are what a state root without sessions has: its lock, empty mountpoints that
// sessions share, and landings, which
// outlive sessions so that they can be undone.
var keptFiles = regexp.MustCompile(`^((\w+/)?lock$|(\w+/)?lands/|(\w+/)?pins/)`)

// processesOf lists processes that have dir in their arguments, environment, working
// directory or mount table.
func processesOf(dir string) []string {
	var left []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, name := range []string{"cmdline", "environ", "mountinfo"} {
			if text, err := os.ReadFile(filepath.Join(p, name)); err == nil && bytes.Contains(text, []byte(dir+"/")) {
				line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
				left = append(left, fmt.Sprintf("%s %s: %s", filepath.Base(p), name, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
				break
			}
		}
	}
	return left
}
