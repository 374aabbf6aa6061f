//go:build !sbxdtest

package feature

import "testing"

func TestReleaseBuildIgnoresTheEnvironment(t *testing.T) {
	t.Setenv("SBXD_TEST_WITHOUT", "landlock,all")
	Accept([]string{"landlock"})
	if Off(Landlock) {
		t.Error("Off(landlock) = true in a release build, want false")
	}
	if got := Carry(); got != nil {
		t.Errorf("Carry = %q in a release build, want nothing", got)
	}
}
