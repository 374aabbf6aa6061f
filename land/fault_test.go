//go:build sbxdtest

package land

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// effects returns how many effects an operation has, by doing it once. The caller
// resets the box.
func (b *box) effects(op, id string) int {
	b.t.Helper()
	f, err := os.CreateTemp(b.t.TempDir(), "log")
	b.must(err)
	defer f.Close()
	out, err := b.command(op, id, "SBXD_FAULT_LOG="+f.Name()).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v: %s", op, err, out)
	}
	log, err := os.ReadFile(f.Name())
	b.must(err)
	return strings.Count(string(log), "\n")
}

// killed runs op with a fault at its n-th effect and reports whether that killed
// it; an error of the operation itself fails the test.
func (b *box) killed(op, id string, n int) bool {
	b.t.Helper()
	out, err := b.command(op, id, fmt.Sprintf("SBXD_FAULT=*:%d:kill", n)).CombinedOutput()
	var ee *exec.ExitError
	if errors.As(err, &ee) && ee.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL {
		return true
	}
	if err != nil {
		b.t.Fatalf("%s with a fault at %d: %v: %s", op, n, err, out)
	}
	return false
}

func TestKilledAtEveryEffect(t *testing.T) {
	for _, place := range []string{"beside", "inside"} {
		t.Run(place, func(t *testing.T) {
			b := newBoxIn(t, quickDir(t))
			if place == "inside" {
				b.lands = newBox(t).lands // another file system than quickDir, if there is one
			}
			b.work(1)
			before, after := b.both()
			n := b.effects("apply", "")
			b.reset(before, after)
			for i := 1; i <= n; i++ {
				if !b.killed("apply", "", i) {
					t.Errorf("effect %d of %d did not come", i, n)
				}
				b.reset(before, after)
			}
			t.Logf("%d effects", n)
		})
	}
}

func TestRecoveryKilledAtEveryEffect(t *testing.T) {
	b := newBoxIn(t, quickDir(t)).work(1)
	before, after := b.both()
	n := b.effects("apply", "")
	b.reset(before, after)
	kills := 0
	for i := 2; i <= n; i += 3 {
		for j := 1; ; j++ {
			if !b.killed("apply", "", i) {
				t.Fatalf("effect %d of %d did not come", i, n)
			}
			more := b.killed("recover", "", j)
			b.reset(before, after)
			if !more {
				break
			}
			kills++
		}
	}
	t.Logf("%d kills of a recovery", kills)
}

func TestUndoKilledAtEveryEffect(t *testing.T) {
	for _, place := range []string{"beside", "inside"} {
		t.Run(place, func(t *testing.T) {
			b := newBoxIn(t, quickDir(t))
			if place == "inside" {
				b.lands = newBox(t).lands
			}
			b.work(1)
			before, after := b.both()
			r := b.mustLand()
			n := b.effects("undo", r.Record.ID)
			for i := 1; i <= n; i++ {
				if b.settleCrash(before, after) {
					t.Fatalf("before the undo with a fault at %d: still landed", i)
				}
				id := b.mustLand().Record.ID
				if !b.killed("undo", id, i) {
					t.Errorf("effect %d of %d did not come", i, n)
				}
				b.reset(before, after)
			}
		})
	}
}

// Each effect fails once, as on a full or broken disk: an error, and the project
// is as it was or as it should be.
func TestEveryEffectFailing(t *testing.T) {
	b := newBoxIn(t, quickDir(t)).work(1)
	before, after := b.both()
	n := b.effects("apply", "")
	b.reset(before, after)
	silent := 0
	for i := 1; i <= n; i++ {
		out, err := b.command("apply", "", fmt.Sprintf("SBXD_FAULT=*:%d:enospc", i)).CombinedOutput()
		if err == nil {
			silent++
		} else if !strings.Contains(string(out), "no space left") {
			t.Errorf("effect %d: the error does not say why: %s", i, out)
		}
		b.reset(before, after)
	}
	if silent > 0 {
		t.Errorf("%d of %d faults gave no error", silent, n)
	}
}
