package landlock

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestRulesFor(t *testing.T) {
	const all = 1<<16 - 1 // EXECUTE … IOCTL_DEV
	for _, tc := range []struct {
		name string
		abi  int
		opt  Options
		want ruleset
		err  bool
	}{
		{name: "none", abi: 0, err: true},
		{name: "without REFER", abi: 1, err: true},
		{name: "first usable", abi: 2, want: ruleset{fs: 1<<14 - 1, size: 8}},
		{name: "truncate", abi: 3, want: ruleset{fs: 1<<15 - 1, size: 8}},
		{name: "network rights are left alone", abi: 4, want: ruleset{fs: 1<<15 - 1, size: 8}},
		{name: "ioctl", abi: 5, want: ruleset{fs: all, size: 8}},
		{name: "scopes", abi: 6, want: ruleset{fs: all, scoped: 3, size: 24}},
		{name: "of the future", abi: 99, want: ruleset{fs: all, scoped: 3, size: 24}},
		{name: "scopes needed, missing", abi: 5, opt: Options{NeedScopes: true}, err: true},
		{name: "scopes needed, there", abi: 6, opt: Options{NeedScopes: true}, want: ruleset{fs: all, scoped: 3, size: 24}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := rulesFor(tc.abi, tc.opt)
			if (err != nil) != tc.err || err != nil && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("rulesFor(%d, %+v) = error %v, want ErrUnsupported: %v", tc.abi, tc.opt, err, tc.err)
			}
			if got != tc.want {
				t.Errorf("rulesFor(%d, %+v) = %+v, want %+v", tc.abi, tc.opt, got, tc.want)
			}
			if !tc.err && got.fs&unix.LANDLOCK_ACCESS_FS_REFER == 0 {
				t.Error("REFER is not handled: every rename across directories would be refused")
			}
		})
	}
}

func TestRestrictNamesTheMissingDirectory(t *testing.T) {
	testbox.Need(t, "landlock")
	// Nothing is restricted on this path, so the test process stays as it is.
	if err := Restrict(Options{Beneath: "/nonexistent/sbxd"}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("Restrict beneath a missing directory: %v, want ENOENT", err)
	}
}
