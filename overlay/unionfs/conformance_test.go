package unionfs

import (
	"testing"

	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/overlaytest"
)

func TestConformance(t *testing.T) {
	conform(t, stage{})
}

// TestConformanceWithoutCapabilities runs the suite with a server that has none,
// as a shim is, and few descriptors.
func TestConformanceWithoutCapabilities(t *testing.T) {
	conform(t, stage{NoCaps: true, FDs: 256})
}

// TestConformanceInAskMode runs the suite with every opening asked for.
func TestConformanceInAskMode(t *testing.T) {
	conform(t, stage{Ask: true})
}

func conform(t *testing.T, st stage) {
	overlaytest.Run(t, func() overlay.Backend {
		a := &apart{t: t, stage: st}
		t.Cleanup(a.reap)
		return a
	})
}
