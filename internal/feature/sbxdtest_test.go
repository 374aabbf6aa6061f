//go:build sbxdtest

package feature

import "testing"

func TestOffFollowsTheList(t *testing.T) {
	for _, tc := range []struct {
		env, name string
		want      bool
	}{
		{"", Landlock, false},
		{"landlock", Landlock, true},
		{"pidfd, landlock", Landlock, true},
		{"pidfd,landlock", Pidfd, true},
		{"landlockx", Landlock, false},
		{"all", Seccomp, true},
		{",", "", false},
	} {
		t.Setenv("SBXD_TEST_WITHOUT", tc.env)
		if got := Off(tc.name); got != tc.want {
			t.Errorf("SBXD_TEST_WITHOUT=%q: Off(%q) = %v, want %v", tc.env, tc.name, got, tc.want)
		}
	}
}

func TestSwitchesAreCarriedOn(t *testing.T) {
	t.Setenv("SBXD_TEST_WITHOUT", "seccomp,landlock")
	args := Carry()
	t.Setenv("SBXD_TEST_WITHOUT", "")
	Accept(args)
	if !Off(Seccomp) || !Off(Landlock) || Off(Pidfd) {
		t.Errorf("Accept(%q) did not switch seccomp and landlock off, and nothing else", args)
	}
}
