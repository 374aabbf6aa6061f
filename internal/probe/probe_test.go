package probe

import (
	"os"
	"strings"
	"testing"
)

func TestProgramNamesWhatIsMissing(t *testing.T) {
	if err := Program("sh"); err != nil {
		t.Errorf("Program(sh) = %v, want nil", err)
	}
	err := Program("no-such-program-here")
	if err == nil || !strings.Contains(err.Error(), "no-such-program-here") {
		t.Errorf("Program(no-such-program-here) = %v, want an error naming it", err)
	}
}

func TestOverlayProbeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Logf("overlay: %v, userns: %v", OverlayUserNS(dir), UserNS())
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("after the probe the directory holds %v (%v), want nothing", left, err)
	}
}

func TestLandlockAnswersAVersionOrAReason(t *testing.T) {
	if v, err := LandlockABI(); (err == nil) != (v > 0) {
		t.Errorf("LandlockABI() = %d, %v: want a version or an error", v, err)
	}
}
