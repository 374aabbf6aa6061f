package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// fakeBwrap is a monitor that starts its payload and is killed before it has told it to
// end with its parent.
func fakeBwrap() int {
	inherits := []*os.File{os.Stdin, os.Stdout, os.Stderr, nil, os.NewFile(holder.GuestFD, ""), os.NewFile(holder.StatusFD, "")}
	p, err := os.StartProcess("/proc/self/exe", []string{"orphan"}, &os.ProcAttr{Files: inherits})
	if err == nil {
		fmt.Fprintln(os.Stderr, "the payload is", p.Pid)
		err = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// orphan is a payload that nothing but SIGKILL ends.
func orphan() int {
	time.Sleep(10 * time.Minute)
	return 0
}

// orphanParent is a shim that starts such a sandbox; it prints what is left of it.
func orphanParent() int {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	var frame holder.Frame
	err := holder.Decode(os.Stdin, &frame)
	s := &shim{}
	if err == nil {
		s.inner, err = startHolder(frame)
	}
	deadline := time.Now().Add(20 * time.Second)
	if err == nil {
		err = s.inner.framed(deadline)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	begun := time.Now()
	_, err = s.inner.ready(deadline)
	fmt.Println("ready:", err)
	if took := time.Since(begun); took > 5*time.Second {
		fmt.Println("after", took)
	}
	s.end()
	kids, err := proc.Children(os.Getpid())
	fmt.Println("left:", len(kids), err)
	return 0
}

func TestAPayloadWithoutItsMonitorIsEnded(t *testing.T) {
	testbox.Need(t, "userns", "overlay-userns")
	frame, dir := frame(t), testbox.TempDir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	frame.Bwrap.Program = filepath.Join(dir, "bwrap") // where the user may go
	if err := os.WriteFile(frame.Bwrap.Program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	var stdin bytes.Buffer
	if err := holder.Encode(&stdin, frame); err != nil {
		t.Fatal(err)
	}
	cmd := testbox.UserCommand(t, "/proc/self/exe", "orphan-parent")
	cmd.Stdin = &stdin
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "ready: bubblewrap ended before the sandbox was there: the payload is ") ||
		!strings.HasSuffix(text, "\nleft: 0 <nil>\n") || strings.Contains(text, "after") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestASessionThatNobodyRecordedIsStopped: the daemon died after the start and before it
// wrote the processes down.
func TestASessionThatNobodyRecordedIsStopped(t *testing.T) {
	l, r, launch := sessionBox(t)
	running, err := l.Start(t.Context(), r, launch)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(t.Context(), r, launch); err != nil {
		t.Error(err)
	}
	for _, id := range []proc.ID{running.Shim, running.Bwrap, running.Guest} {
		if err := id.Wait(5 * time.Second); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(launch.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := l.Stop(t.Context(), r, launch); err != nil {
		t.Errorf("of one that is gone: %v", err)
	}
}

func stop(t *testing.T, l *Launcher, r session.Record, launch session.Launch, running session.Running) {
	t.Helper()
	r.Running = running
	if err := l.Stop(t.Context(), r, launch); err != nil {
		t.Error(err)
	}
}
