package overlay

import (
	"errors"
	"strings"
	"testing"
)

// FuzzJudge gives one attribute any name and value.
func FuzzJudge(f *testing.F) {
	for _, n := range []string{"opaque", "whiteout", "redirect", "overlay.opaque", "", "origin", "zzz"} {
		f.Add(byte(Dir), int64(0), ns+n, []byte("y"))
		f.Add(byte(File), int64(0), ns+n, []byte("y"))
	}
	f.Add(byte(File), int64(1), "user.note", []byte("x"))
	f.Add(byte(Dir), int64(0), "trusted.overlay.opaque", []byte("y"))
	f.Add(byte(Dir), int64(0), "system.posix_acl_access", []byte("\x02\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, typ byte, size int64, name string, value []byte) {
		v, err := judge(Type(typ), size, map[string][]byte{name: value})
		if err != nil && !errors.Is(err, ErrUnsupportedUpper) {
			t.Fatal(err)
		}
		if v.opaque && (Type(typ) != Dir || name != "user.overlay.opaque" || string(value) != "y") {
			t.Errorf("%q=%q on %s makes it opaque", name, value, Type(typ))
		}
		if v.whiteout && (Type(typ) != File || size != 0 || name != "user.overlay.whiteout") {
			t.Errorf("%q on %s of %d bytes deletes it", name, Type(typ), size)
		}
		for n := range v.user {
			if !strings.HasPrefix(n, "user.") || strings.HasPrefix(n, ns) || isForeign(n) {
				t.Errorf("%q is passed on as the user's", n)
			}
		}
	})
}

func TestComparePaths(t *testing.T) {
	sorted := []string{"", "a", "a/a", "a/b/c", "a\x01", "a!b", "a-b", "a.b", "b", "\xff"}
	for i, a := range sorted {
		for j, b := range sorted {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := ComparePaths(a, b); got != want {
				t.Errorf("ComparePaths(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
}
