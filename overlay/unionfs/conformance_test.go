package unionfs

import (
	"testing"

	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/overlaytest"
)

func TestConformance(t *testing.T) {
	overlaytest.Run(t, func() overlay.Backend { return &apart{t: t} })
}
