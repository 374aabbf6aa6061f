//go:build sbxdtest

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/feature"
)

// faulty is a box whose processes meet the faults that its file names.
type faulty struct {
	*box
	faults, log string
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	// Not below /tmp, which is another one for the mounter.
	dir, err := os.MkdirTemp("/var/tmp", "sbxt-fault") //nolint:usetesting // t.TempDir is below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &faulty{faults: filepath.Join(dir, "faults"), log: filepath.Join(dir, "log")}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{f.faults, f.log} {
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// Without a spare shim a start does everything itself.
	f.box = launched(t, "SBXD_FAULT=@"+f.faults, "SBXD_FAULT_LOG="+f.log, "SBXD_TEST_WITHOUT="+strings.Trim(os.Getenv("SBXD_TEST_WITHOUT")+","+feature.SpareShim, ","))
	return f
}

func (f *faulty) set(t *testing.T, faults string) {
	t.Helper()
	if err := os.WriteFile(f.faults, []byte(faults), 0o666); err != nil {
		t.Fatal(err)
	}
}

// effects lists the names of what do met, each once.
func (f *faulty) effects(t *testing.T, do func()) []string {
	t.Helper()
	if err := os.Truncate(f.log, 0); err != nil {
		t.Fatal(err)
	}
	do()
	b, err := os.ReadFile(f.log)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// steps returns what a machine shows without a session, and the effects of a start.
func (f *faulty) steps(t *testing.T) (before, ops []string) {
	t.Helper()
	before = f.used(t)
	var id string
	ops = f.effects(t, func() { id = f.run(t, 0, "start", "--project", f.project) })
	f.run(t, 0, "rm", id)
	return before, ops
}

// failingStart starts a session that has to fail.
func (f *faulty) failingStart(t *testing.T, fault string) {
	t.Helper()
	if id, _ := f.tryStart(t, fault); id != "" {
		t.Errorf("%s: session %s was started", fault, id)
	}
}

// TestAStartThatFailsLeavesNoTrace fails every effect of a start in turn, with an I/O
// error, a full disk, and by killing the process that is about to do it.
func TestAStartThatFailsLeavesNoTrace(t *testing.T) {
	f := newFaulty(t)
	before, ops := f.steps(t)
	ops = slices.DeleteFunc(ops, isCapture)
	if len(ops) < 20 {
		t.Fatalf("effects of a start: %q", ops)
	}
	for _, op := range ops {
		actions := []string{"fail", "enospc", "kill"}
		if strings.HasPrefix(op, "start.") {
			actions = actions[:2] // of the daemon: see the next test
		}
		for _, action := range actions {
			fault := op + ":1:" + action
			f.set(t, fault)
			f.failingStart(t, fault)
			f.set(t, "")
			if strings.HasPrefix(op, "shim.") && action == "kill" {
				f.run(t, 0, "sweep") // a crash, which may meet bubblewrap between two steps
			}
			f.noTrace(t, before)
			if t.Failed() {
				t.FailNow()
			}
		}
		f.run(t, 0, "rm", f.run(t, 0, "start", "--project", f.project))
	}
}

// isCapture: the project is recorded beside a start, which does not wait for it.
func isCapture(op string) bool {
	return op == "base.capture" || op == "worker.capture" || strings.HasPrefix(op, "land.")
}

// TestARecordingThatFails starts a session all the same; whoever wants to know its
// changes has the project recorded then.
func TestARecordingThatFails(t *testing.T) {
	f := newFaulty(t)
	for _, fault := range []string{"base.capture:1:fail", "worker.capture:1:enospc", "worker.capture:1:kill"} {
		f.set(t, fault)
		id := f.run(t, 0, "start", "--project", f.project)
		f.run(t, 0, "exec", id, "--", "touch", "new")
		f.set(t, "")
		if got := f.run(t, 0, "diff", id); !strings.Contains(got, "new") || !strings.Contains(got, "1 change") {
			t.Errorf("%s: diff says %q", fault, got)
		}
		f.run(t, 0, "rm", "--discard", id)
	}
}

// TestADaemonThatDiesInAStartLeavesNoTrace kills the daemon at each of its own steps: the
// next one takes the start back, also when the shim was serving already.
func TestADaemonThatDiesInAStartLeavesNoTrace(t *testing.T) {
	f := newFaulty(t)
	before, ops := f.steps(t)
	ops = slices.DeleteFunc(ops, func(op string) bool { return !strings.HasPrefix(op, "start.") })
	if len(ops) < 4 {
		t.Fatalf("steps of a start: %q", ops)
	}
	for _, op := range ops {
		f.set(t, op+":1:kill")
		f.failingStart(t, op)
		f.set(t, "")
		_ = f.end(syscall.SIGKILL) // it is dead; this collects it
		f.again(t)
		f.noTrace(t, before)
	}
	f.run(t, 0, "rm", f.run(t, 0, "start", "--project", f.project))
}

// stopped waits for the process of a start that stopped itself.
func (f *faulty) stopped(t *testing.T, line string) (pid int) {
	t.Helper()
	eventually(t, line+" stops", func() bool {
		for _, p := range f.all(t) {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid)); err == nil && p.line == line && strings.Contains(string(b), ") T ") {
				pid = p.pid
			}
		}
		return pid != 0
	})
	return pid
}

// waits is stopped for the first process of a pid namespace, which goes on when the faults
// change.
func (f *faulty) waits(t *testing.T, line, op string) (pid int) {
	t.Helper()
	eventually(t, line+" waits at "+op, func() bool {
		log, err := os.ReadFile(f.log)
		must(t, err)
		for _, p := range f.all(t) {
			if p.line == line && slices.Contains(strings.Fields(string(log)), op) {
				pid = p.pid
			}
		}
		return pid != 0
	})
	return pid
}

// TestAHolderKilledInAStart kills the holder at steps of its own, and after the last one
// bubblewrap at moments of its set-up.
func TestAHolderKilledInAStart(t *testing.T) {
	f := newFaulty(t)
	before := f.used(t)
	for i, op := range []string{"holder.stage", "holder.base", "holder.share", "holder.share", "holder.share", "holder.share"} {
		must(t, os.Truncate(f.log, 0))
		f.set(t, op+":1:stop")
		started := make(chan string)
		go func() {
			id, _ := f.tryStart(t, op)
			started <- id
		}()
		pid := f.waits(t, "sbxd holder", op)
		if i > 2 {
			f.set(t, "")
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		f.set(t, "")
		switch id := <-started; {
		case id == "":
		case i <= 2:
			t.Errorf("%s: session %s was started", op, id)
		default: // the start was through
			f.run(t, 0, "rm", "--discard", id)
		}
		f.noTrace(t, before)
	}
	f.run(t, 0, "rm", f.run(t, 0, "start", "--project", f.project))
}

// TestADaemonKilledWhileAHolderHangs: the shim sees its launcher go and ends the start.
func TestADaemonKilledWhileAHolderHangs(t *testing.T) {
	f := newFaulty(t)
	before := f.used(t)
	f.set(t, "mounter.views:1:stop")
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.failingStart(t, "the daemon is killed")
	}()
	f.stopped(t, "sbxd mounter")
	f.killDaemon(t)
	<-done
	f.set(t, "")
	f.again(t)
	f.noTrace(t, before)
}
