//go:build !sbxdtest

package fault

import "testing"

func TestReleaseBuildNeverFails(t *testing.T) {
	t.Setenv("SBXD_FAULT", "*:1:kill")
	if err := Hit("anything"); err != nil {
		t.Errorf("Hit = %v, want nil", err)
	}
}
