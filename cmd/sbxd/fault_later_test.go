//go:build sbxdtest

package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestAResumeThatFailsLeavesTheSessionStopped fails every effect of a second start: the
// session's files are what they were, and it starts the next time.
func TestAResumeThatFailsLeavesTheSessionStopped(t *testing.T) {
	f := newFaulty(t)
	id := f.run(t, 0, "start", "--project", f.project)
	f.run(t, 0, "exec", id, "--", "sh", "-c", "echo work >work")
	f.run(t, 0, "diff", id) // so that the project is recorded
	f.run(t, 0, "stop", id)
	ops := f.effects(t, func() { f.run(t, 0, "resume", id) })
	f.run(t, 0, "stop", id)
	before := f.quiet(t)
	ops = slices.DeleteFunc(ops, isCapture)
	if len(ops) < 15 {
		t.Fatalf("effects of a resume: %q", ops)
	}
	for _, op := range ops {
		action := "fail"
		if !strings.HasPrefix(op, "start.") && !strings.HasPrefix(op, "base.") {
			action = "kill"
		}
		f.set(t, op+":1:"+action)
		cmd := f.cmd("resume", id)
		said, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(said), "sbxd: ") {
			t.Errorf("%s %s: %v %s", action, op, err, said)
		}
		f.set(t, "")
		if s := f.status(t, id); s.State != "stopped" {
			t.Errorf("%s %s: it is %s (%s)", action, op, s.State, s.Reason)
		}
		if action == "kill" {
			f.run(t, 0, "sweep")
		}
		f.noTrace(t, before)
	}
	f.run(t, 0, "resume", id)
	if got := f.run(t, 0, "exec", id, "--", "cat", "work"); got != "work" {
		t.Errorf("its work: %q", got)
	}
	f.run(t, 0, "rm", "--discard", id)
}

// TestARemovalThatFails leaves a session that can be removed: now, or by the next daemon.
func TestARemovalThatFails(t *testing.T) {
	f := newFaulty(t)
	before := f.used(t)
	for _, restart := range []bool{false, true} {
		for _, action := range []string{"fail", "kill"} {
			id := f.run(t, 0, "start", "--project", f.project)
			f.set(t, "worker.remove:1:"+action)
			f.run(t, 1, "rm", id)
			f.set(t, "")
			if restart {
				f.killDaemon(t)
				f.again(t)
			} else {
				f.run(t, 0, "rm", id)
			}
			f.noTrace(t, before)
		}
	}
}

// TestACallerThatGivesUp: the start goes back with it.
func TestACallerThatGivesUp(t *testing.T) {
	f := newFaulty(t)
	before := f.used(t)
	for i, sig := range []os.Signal{syscall.SIGINT, syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM} {
		f.set(t, "mounter.views:1:stop")
		cmd := f.cmd("start", "--project", f.project)
		if i > 1 {
			cmd = f.cmd("run", "--project", f.project, "--", "true")
		}
		must(t, cmd.Start())
		f.stopped(t, "sbxd mounter")
		f.set(t, "")
		must(t, cmd.Process.Signal(sig))
		_ = cmd.Wait()
		f.noTrace(t, before)
	}
}

// TestASweepThatFails says so, and the next one does the rest.
func TestASweepThatFails(t *testing.T) {
	f := newFaulty(t)
	f.run(t, 0, "rm", f.run(t, 0, "start", "--project", f.project))
	dry := func() []string {
		return slices.DeleteFunc(strings.Split(f.run(t, 0, "sweep", "--dry-run"), "\n"), func(l string) bool {
			return !strings.HasPrefix(l, "remove") || !strings.Contains(l, f.dir) // /tmp is everybody's
		})
	}
	left := dry()
	if len(left) == 0 {
		t.Fatal("there is nothing to sweep")
	}
	for _, fault := range []string{"sweep.remove:1:fail", "worker.remove:1:kill"} {
		if os.Geteuid() != 0 && strings.HasPrefix(fault, "worker.") {
			continue // there is no worker between a user and its own files
		}
		f.set(t, fault)
		f.run(t, 9, "sweep")
		f.set(t, "")
	}
	f.run(t, 0, "sweep")
	if now := dry(); len(now) > 0 {
		t.Errorf("left: %q", now)
	}
}
