package shim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// spareFor makes the spare shim of a session and returns it with its processes, by the
// first words of their command lines, once its sandbox waits.
func spareFor(t *testing.T, l *Launcher, r session.Record, launch session.Launch) (*fresh, map[string]int) {
	t.Helper()
	findings, err := l.Findings(t.Context(), "", r.Cred())
	if err != nil {
		t.Fatal(err)
	}
	n, err := needOf(r, launch.Policy, findings)
	if err != nil {
		t.Fatal(err)
	}
	l.prepare(n)
	var all map[string]int
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		all = map[string]int{}
		descend(t, l.spare.process.Pid, all)
		if all["guest"] != 0 && locked(l.spare.process.Pid) {
			return l.spare, all
		}
	}
	t.Fatalf("the spare shim has %v", all)
	return nil, nil
}

// descend collects the processes below pid.
func descend(t *testing.T, pid int, all map[string]int) {
	kids, err := proc.Children(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, kid := range kids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", kid))
		words := strings.Split(string(line), "\x00")
		switch {
		case words[0] == "bwrap":
			all["bwrap"] = kid
		case len(words) > 1:
			all[words[1]] = kid
		}
		descend(t, kid, all)
	}
}

// locked reports whether a shim has its filter, the last step of its preparation that
// can be seen from outside.
func locked(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(b), "Seccomp:\t2")
}

func TestASpareShimIsUsed(t *testing.T) {
	l, r, launch := sessionBox(t)
	s, _ := spareFor(t, l, r, launch)
	running, err := l.Start(t.Context(), r, launch)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, l, r, launch, running)
	if running.Shim.Pid != s.process.Pid {
		t.Errorf("the session's shim is %d, want the spare one, %d", running.Shim.Pid, s.process.Pid)
	}
}

// TestASpareThatDoesNotFitIsNotUsed: other sizes, another network, another host.
func TestASpareThatDoesNotFitIsNotUsed(t *testing.T) {
	for name, change := range map[string]func(*session.Record, *session.Launch, *fresh){
		"size": func(_ *session.Record, l *session.Launch, _ *fresh) { l.Policy.TmpSize = 8 << 20 },
		"host": func(_ *session.Record, _ *session.Launch, s *fresh) { s.need.host[0]++ },
		"user": func(_ *session.Record, _ *session.Launch, s *fresh) {
			s.need.cred.Groups = append(s.need.cred.Groups, 4711)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, r, launch := sessionBox(t)
			s, _ := spareFor(t, l, r, launch)
			change(&r, &launch, s)
			running, err := l.Start(t.Context(), r, launch)
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, l, r, launch, running)
			if running.Shim.Pid == s.process.Pid {
				t.Error("the spare shim was used")
			}
		})
	}
}

// TestASpareThatLostAProcessIsNotUsed kills each process of the waiting sandbox.
func TestASpareThatLostAProcessIsNotUsed(t *testing.T) {
	for _, victim := range []string{"shim", "bwrap", "mounter", "guest"} {
		t.Run(victim, func(t *testing.T) {
			l, r, launch := sessionBox(t)
			s, all := spareFor(t, l, r, launch)
			all["shim"] = s.process.Pid
			id, err := proc.Of(all[victim])
			if err != nil {
				t.Fatalf("%v: %v", all, err)
			}
			if err := proc.Kill(id, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{victim, "bwrap"} { // which ends with its guest
				if id, err := proc.Of(all[name]); err == nil && (name == victim || victim == "guest") {
					_ = id.Wait(5 * time.Second)
				}
			}
			running, err := l.Start(t.Context(), r, launch)
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, l, r, launch, running)
			if running.Shim.Pid == s.process.Pid {
				t.Error("the spare shim was used")
			}
			for name, pid := range all {
				if id, err := proc.Of(pid); err == nil && id.Wait(5*time.Second) != nil {
					t.Errorf("the %s of the spare is left", name)
				}
			}
		})
	}
}
