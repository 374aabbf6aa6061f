//go:build sbxdtest

package fault

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyTheNthHitFails(t *testing.T) {
	t.Setenv("SBXD_FAULT", "a.b:2:fail,c.*:3:enospc")
	for i, tc := range []struct {
		op   string
		want error
	}{
		{"a.b", nil},
		{"x", nil},
		{"a.b", unix.EIO},
		{"a.b", nil},
		{"c.d", nil},
		{"c.e", nil},
		{"cc", nil},
		{"c.f", unix.ENOSPC},
		{"c.f", nil},
	} {
		if err := Hit(tc.op); !errors.Is(err, tc.want) {
			t.Errorf("hit %d of %s: %v, want %v", i, tc.op, err, tc.want)
		}
	}
}

func TestKillKills(t *testing.T) {
	if os.Getenv("FAULT_INNER") != "" {
		_ = Hit("x")
		t.Fatal("still alive")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKillKills$")
	cmd.Env = append(os.Environ(), "FAULT_INNER=1", "SBXD_FAULT=*:1:kill")
	err := cmd.Run()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("got %v, want killed", err)
	}
}

func TestFaultsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	t.Setenv("SBXD_FAULT", "@"+file)
	defer func() { _ = state.file.Close(); state.file = nil }()
	for i, tc := range []struct {
		faults string
		want   error
	}{{"", nil}, {"a:1:fail\n", unix.EIO}, {"a:1:fail\n", nil}, {"a:1:enospc", unix.ENOSPC}, {"", nil}, {"a:1:enospc", unix.ENOSPC}} {
		write(tc.faults)
		if err := Hit("a"); !errors.Is(err, tc.want) {
			t.Errorf("hit %d with %q: %v, want %v", i, tc.faults, err, tc.want)
		}
	}
}

func TestLogNamesEachEffect(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("SBXD_FAULT_LOG", log)
	_, _ = Hit("one"), Hit("two")
	if b, err := os.ReadFile(log); err != nil || string(b) != "one\ntwo\n" {
		t.Errorf("log = %q, %v", b, err)
	}
}

func TestAFaultThatCannotBeReadPanics(t *testing.T) {
	for _, env := range []string{"x", "x:0:fail", "x:1:explode", "x:y:fail"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("SBXD_FAULT=%s was taken", env)
				}
			}()
			parse(env)
		}()
	}
}
