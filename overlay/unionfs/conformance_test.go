package unionfs

import (
	"testing"

	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/overlaytest"
)

func TestConformance(t *testing.T) {
	overlaytest.Run(t, func() overlay.Backend { return &apart{t: t} })
}

// TestConformanceWithoutCapabilities runs the suite with a server that has none,
// as a shim is, and few descriptors.
func TestConformanceWithoutCapabilities(t *testing.T) {
	overlaytest.Run(t, func() overlay.Backend { return &apart{t: t, stage: stage{NoCaps: true, FDs: 256}} })
}

// TestConformanceInAskMode runs the suite with every opening asked for.
func TestConformanceInAskMode(t *testing.T) {
	overlaytest.Run(t, func() overlay.Backend { return &apart{t: t, stage: stage{Ask: true}} })
}
