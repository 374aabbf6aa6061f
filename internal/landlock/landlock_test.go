package landlock

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestRulesFor(t *testing.T) {
	const refer = unix.LANDLOCK_ACCESS_FS_REFER
	for _, tc := range []struct {
		name string
		abi  int
		opt  Options
		want ruleset
		err  bool
	}{
		{name: "none", abi: 0, err: true},
		{name: "without REFER", abi: 1, err: true},
		{name: "first usable", abi: 2, want: ruleset{fs: refer, size: 8}},
		{name: "before scopes", abi: 5, want: ruleset{fs: refer, size: 8}},
		{name: "scopes", abi: 6, want: ruleset{fs: refer, scoped: 3, size: 24}},
		{name: "of the future", abi: 99, want: ruleset{fs: refer, scoped: 3, size: 24}},
		{name: "scopes needed, missing", abi: 5, opt: Options{NeedScopes: true}, err: true},
		{name: "scopes needed, there", abi: 6, opt: Options{NeedScopes: true}, want: ruleset{fs: refer, scoped: 3, size: 24}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := rulesFor(tc.abi, tc.opt)
			if (err != nil) != tc.err || err != nil && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("rulesFor(%d, %+v) = error %v, want ErrUnsupported: %v", tc.abi, tc.opt, err, tc.err)
			}
			if got != tc.want {
				t.Errorf("rulesFor(%d, %+v) = %+v, want %+v", tc.abi, tc.opt, got, tc.want)
			}
		})
	}
}

func TestApplyNamesTheMissingDirectory(t *testing.T) {
	testbox.Need(t, "landlock")
	// Nothing is restricted on this path, so the test process stays as it is.
	if err := apply(ruleset{fs: unix.LANDLOCK_ACCESS_FS_REFER, size: sizeFS}, "/nonexistent/sbxd"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("apply beneath a missing directory: %v, want ENOENT", err)
	}
}
