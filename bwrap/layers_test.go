package bwrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/feature"
)

func TestFitLeavesOutWhatIsMissing(t *testing.T) {
	t.Setenv("SBXD_TEST_WITHOUT", "")
	full := sample().Fit(Findings{DisableUserns: true, Size: true})
	if got := full.Missing(); len(got) > 0 || !full.DisableUserns {
		t.Errorf("a complete bubblewrap misses %v", got)
	}
	old := sample().Fit(Findings{})
	if old.DisableUserns || !old.NoSize || old.NoSeccomp || len(old.Missing()) != 2 {
		t.Errorf("an old bubblewrap: %+v, missing %v", old, old.Missing())
	}
	if diff := cmp.Diff(sample().Argv, old.Argv); diff != "" {
		t.Errorf("Fit changed the payload:\n%s", diff)
	}
}

// A release build cannot be talked out of a layer; a build with the tag sbxdtest can.
func TestFitObeysTheTestSwitches(t *testing.T) {
	t.Setenv("SBXD_TEST_WITHOUT", feature.Seccomp+","+feature.UserNSLimit)
	got := sample().Fit(Findings{DisableUserns: true, Size: true})
	off := feature.Off(feature.Seccomp)
	if got.NoSeccomp != off || got.DisableUserns == off {
		t.Errorf("switches work: %v, but Fit = %+v", off, got)
	}
}
