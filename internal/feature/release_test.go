//go:build !sbxdtest

package feature

import "testing"

func TestReleaseBuildIgnoresTheEnvironment(t *testing.T) {
	t.Setenv("SBXD_TEST_WITHOUT", "landlock,all")
	if Off(Landlock) {
		t.Error("Off(landlock) = true in a release build, want false")
	}
}
