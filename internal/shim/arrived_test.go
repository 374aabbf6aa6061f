package shim

import (
	"os"
	"testing"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// TestAMountThatDidNotArriveFailsTheStart looks at a process that nothing is mounted for.
func TestAMountThatDidNotArriveFailsTheStart(t *testing.T) {
	n, err := mountCount(os.Getpid())
	if err != nil || n == 0 {
		t.Fatalf("%d mounts, %v", n, err)
	}
	s := &shim{mounts: n, running: session.Running{Guest: proc.ID{Pid: os.Getpid()}}}
	if err := s.arrived(0); err != nil {
		t.Error(err)
	}
	if err := s.arrived(1); err == nil {
		t.Error("one mount was made and none came: no error")
	}
}
