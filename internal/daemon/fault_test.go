//go:build sbxdtest

package daemon

import (
	"fmt"
	"testing"

	"github.com/sbxd/sbxd/api"
)

// startSteps is how many effects a start announces to package fault here; the
// launcher's own come between them.
const startSteps = 4

func TestStartFailsAtEveryStep(t *testing.T) {
	for k := 1; k <= startSteps; k++ {
		for _, action := range []string{"fail", "enospc"} {
			t.Run(fmt.Sprintf("%s at %d", action, k), func(t *testing.T) {
				b := newBox(t)
				b.start(fmt.Sprintf("SBXD_FAULT=start.*:%d:%s", k, action))
				_, err := b.Start(t.Context(), b.request())
				wantCode(t, "Start", err, api.ExitFailed)
				if list, err := b.List(t.Context()); err != nil || len(list) != 0 {
					t.Errorf("List: %+v, %v", list, err)
				}
				b.nothingLeft()
				b.session() // and the next one works
			})
		}
	}
}

func TestDaemonDiesAtEveryStepOfAStart(t *testing.T) {
	for k := 1; k <= startSteps; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			b := newBox(t)
			b.start(fmt.Sprintf("SBXD_FAULT=start.*:%d:kill", k))
			if s, err := b.Start(t.Context(), b.request()); err == nil {
				t.Fatalf("it was not killed: %+v", s)
			}
			_ = b.cmd.Wait()
			b.start()
			if list, err := b.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("List: %+v, %v", list, err)
			}
			b.nothingLeft()
		})
	}
}

// A recording of the project that fails is tried again before anybody compares with it.
func TestFailedRecordingIsTriedAgain(t *testing.T) {
	b := newBox(t)
	b.start("SBXD_FAULT=base.capture:1:fail")
	s := b.session()
	b.sh(s.ID, "echo x >a")
	if d, err := b.Diff(t.Context(), s.ID, api.DiffOptions{}); err != nil || len(d.Changes) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}
