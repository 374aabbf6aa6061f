package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/overlaytest"
)

func TestMain(m *testing.M) { testbox.Main(m) }

// build makes a tree in the language of overlaytest.Build.
func build(t testing.TB, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := overlaytest.Build(dir, lines...); err != nil {
		t.Fatal(err)
	}
	return dir
}

func decode(t testing.TB, base, upper string, opt overlay.Options) (*overlay.Set, error) {
	t.Helper()
	up, err := safefs.OpenDir(upper)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	low, err := safefs.OpenDir(base)
	if err != nil {
		t.Fatal(err)
	}
	defer low.Close()
	live := overlay.NewLive(low)
	defer live.Close()
	return overlay.Changes(context.Background(), up, live, opt)
}

// show gives each change as "op path", with what else is of interest.
func show(s *overlay.Set) []string {
	var out []string
	for _, c := range s.Changes {
		line := c.Op.String() + " " + c.Path
		if c.Was != c.Type && c.Was != overlay.None {
			line += fmt.Sprintf(" %s→%s", c.Was, c.Type)
		}
		if c.Link != "" {
			line += " = " + c.Link
		}
		if c.Split {
			line += " split"
		}
		if c.Hint != "" {
			line += " from " + c.Hint + "?"
		}
		out = append(out, line)
	}
	return out
}

func TestChanges(t *testing.T) {
	base := []string{
		"f f 1", "d d", "f d/a 1", "d d/s", "f d/s/b 2", "l l f", "f same 5", "f x 1", "x x user.k=v", "f h1 h", "h h2 h1",
	}
	for _, tc := range []struct {
		name  string
		upper []string
		opt   overlay.Options
		want  []string
		marks []string
	}{
		{name: "nothing"},
		{name: "new entries", upper: []string{"f new 1", "d n", "f n/x 1", "l n/l t", "p n/p"}, want: []string{"add n", "add n/l", "add n/p", "add n/x", "add new"}},
		{name: "same size, other bytes", upper: []string{"f f 2"}, want: []string{"modify f"}},
		{name: "copied up only", upper: []string{"f f 1", "d d", "d d/s", "l l f"}},
		{
			name: "copied up only, asked for", upper: []string{"f f 1", "d d"}, opt: overlay.Options{KeepSame: true},
			want: []string{"same d", "same f"},
		},
		{name: "mode only", upper: []string{"f f 1", "m f"}, want: []string{"mode f"}},
		{name: "attribute changed", upper: []string{"f x 1", "x x user.k=w"}, want: []string{"attr x"}},
		{name: "attribute removed", upper: []string{"f x 1"}, want: []string{"attr x"}},
		{name: "attribute same", upper: []string{"f x 1", "x x user.k=v"}},
		{name: "link target", upper: []string{"l l g"}, want: []string{"modify l"}},
		{name: "whiteout of a file", upper: []string{"w f"}, want: []string{"delete f"}},
		{name: "whiteout of a directory", upper: []string{"w d"}, want: []string{"delete d", "delete d/a", "delete d/s", "delete d/s/b"}},
		{name: "whiteout of nothing", upper: []string{"w nothing", "d n", "w n/f"}, want: []string{"add n"}},
		{name: "whiteouts are linked with each other", upper: []string{"w f", "h x f"}, want: []string{"delete f", "delete x"}},
		{name: "opaque", upper: []string{"d d", "x d user.overlay.opaque=y", "f d/new 1", "w d/a"}, want: []string{"delete d/a", "add d/new", "delete d/s", "delete d/s/b"}},
		{name: "opacity is inherited", upper: []string{"d d", "x d user.overlay.opaque=y", "d d/s", "f d/s/c 1"}, want: []string{"delete d/a", "delete d/s/b", "add d/s/c"}},
		{name: "opaque without base", upper: []string{"d n", "x n user.overlay.opaque=y", "f n/f 1"}, want: []string{"add n", "add n/f"}},
		{name: "opaque over a file", upper: []string{"d f", "x f user.overlay.opaque=y", "f f/f 1"}, want: []string{"modify f file→dir", "add f/f"}},
		{name: "directory over a link is not looked through", upper: []string{"d l", "w l/a"}, want: []string{"modify l symlink→dir"}},
		{name: "directory becomes link", upper: []string{"l d /etc"}, want: []string{"modify d dir→symlink", "delete d/a", "delete d/s", "delete d/s/b"}},
		{name: "hard links", upper: []string{"f n1 1", "h n2 n1"}, want: []string{"add n1", "add n2 = n1"}},
		{name: "a hard link of the base is split", upper: []string{"f h1 x"}, want: []string{"modify h1 split"}},
		{name: "names of other whiteouts", upper: []string{"f .wh.f 1", "d .wh..wh..opq"}, want: []string{"add .wh..wh..opq", "add .wh.f"}},
		{
			name: "attribute whiteout", upper: []string{"f f", "x f user.overlay.whiteout=y", "f x 1", "x x user.overlay.whiteout=y"},
			want: []string{"delete f", "attr x"}, marks: []string{"f xattr-whiteout", "x overlay-xattr-place"},
		},
		{
			name: "marks of other formats", upper: []string{"d d", "x d user.fuseoverlayfs.opaque=y", "f f 1", "x f user.containers.override_stat=0:0:0"},
			marks: []string{"d foreign-overlay-xattr", "f foreign-overlay-xattr"},
		},
		{
			name: "escaped, unknown and odd marks", upper: []string{"d d", "x d user.overlay.overlay.opaque=y", "d d/s", "x d/s user.overlay.opaque=n", "f f 1", "x f user.overlay.opaque=y", "x f user.overlay.zzz=1"},
			marks: []string{"d escaped-overlay-xattr", "f overlay-xattr-place", "f unknown-overlay-xattr", "d/s overlay-xattr-value"},
		},
		{
			name: "harmless marks", upper: []string{"d d", "x d user.overlay.impure=y", "x d user.overlay.origin=", "x d user.overlay.uuid=0123456789abcdef", "x d user.overlay.opaque=x"},
		},
		{
			name: "masked paths", upper: []string{"w x", "d d", "x d user.overlay.opaque=y", "f f 9"}, opt: overlay.Options{Masked: []string{"f", "d/s/b", "nothing"}},
			want: []string{"delete d/a", "delete x"},
		},
		{
			name: "a directory above a mask is not taken away", upper: []string{"l d /etc", "w f"}, opt: overlay.Options{Masked: []string{"d/s/b"}},
			want: []string{"delete f"},
		},
		{
			name: "placeholders", upper: []string{"d p", "d p/q", "f tok", "d r", "d r/s", "f r/new 1"}, opt: overlay.Options{Placeholders: []string{"p/q", "tok", "r/s", "f"}},
			want: []string{"add r", "add r/new"},
		},
		{
			name: "a placeholder with content", upper: []string{"d p", "d p/q", "f p/q/x 1", "f tok 1"}, opt: overlay.Options{Placeholders: []string{"p/q", "tok"}},
			want: []string{"add p", "add p/q", "add p/q/x", "add tok"},
		},
		{
			name: "hints", upper: []string{"w d", "d m", "f m/a 1", "f b 2", "f c 9"}, opt: overlay.Options{Hints: true},
			want: []string{"add b from d/s/b?", "add c", "delete d", "delete d/a", "delete d/s", "delete d/s/b", "add m", "add m/a from d/a?"},
		},
		{
			name: "one deleted file was renamed once", upper: []string{"w f", "f b 1", "f c 1"}, opt: overlay.Options{Hints: true},
			want: []string{"add b from f?", "add c", "delete f"},
		},
		{name: "order is by name, not by byte", upper: []string{"d n", "f n/x 1", "f n-b 1", "f n.c 1"}, want: []string{"add n", "add n/x", "add n-b", "add n.c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := decode(t, build(t, base...), build(t, tc.upper...), tc.opt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, show(s)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			var marks []string
			for _, m := range s.Forged {
				marks = append(marks, m.Path+" "+m.What)
			}
			slices.SortStableFunc(marks, func(a, b string) int { return strings.Compare(a, b) })
			slices.Sort(tc.marks)
			if diff := cmp.Diff(tc.marks, marks); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
			if !slices.IsSortedFunc(s.Changes, func(a, b overlay.Change) int { return overlay.ComparePaths(a.Path, b.Path) }) {
				t.Errorf("not in order: %v", show(s))
			}
		})
	}
}

func TestMaskedPathsAreListed(t *testing.T) {
	s, err := decode(t, build(t, "d d", "f d/.env s", "f f 1"), build(t, "w d", "f f 2"), overlay.Options{Masked: []string{"d/.env", "f"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"d", "d/.env", "f"}; !slices.Equal(s.Masked, want) || len(s.Changes) != 0 {
		t.Errorf("masked %q, changes %q, want %q and none", s.Masked, show(s), want)
	}
}

func TestMarksOfAnotherMountAreRefused(t *testing.T) {
	for _, mark := range []string{"redirect=/etc", "metacopy=", "metacopy=x", "nlink=U+0", "upper=x", "verity=x"} {
		upper := build(t, "d d", "d d/s", "x d/s user.overlay."+mark)
		_, err := decode(t, build(t, "d d"), upper, overlay.Options{})
		if !errors.Is(err, overlay.ErrUnsupportedUpper) || !strings.Contains(err.Error(), `"d/s"`) {
			t.Errorf("%s: %v, want ErrUnsupportedUpper naming the path", mark, err)
		}
	}
}

func TestBounds(t *testing.T) {
	base := build(t, "d d", "f d/a", "f d/b", "d d/s", "d d/s/t", "f d/s/t/u")
	for name, c := range map[string]struct {
		upper   string
		entries int
	}{"entries of the upper": {base, 6}, "deletions": {build(t, "w d"), 7}} {
		if _, err := decode(t, base, c.upper, overlay.Options{MaxEntries: c.entries, MaxDepth: 4}); err != nil {
			t.Errorf("%s, at the bounds: %v", name, err)
		}
		if _, err := decode(t, base, c.upper, overlay.Options{MaxEntries: c.entries - 1}); !errors.Is(err, overlay.ErrTooMany) {
			t.Errorf("%s, one too many: %v", name, err)
		}
		if _, err := decode(t, base, c.upper, overlay.Options{MaxDepth: 2}); !errors.Is(err, overlay.ErrTooDeep) {
			t.Errorf("%s, too deep: %v", name, err)
		}
	}
}

func TestWalkStopsWithTheCallersError(t *testing.T) {
	up, _ := safefs.OpenDir(build(t, "f a 1", "f b 1"))
	defer up.Close()
	low, _ := safefs.OpenDir(t.TempDir())
	defer low.Close()
	stop := errors.New("enough")
	seen := 0
	_, err := overlay.Walk(t.Context(), up, overlay.NewLive(low), overlay.Options{}, func(overlay.Change) error {
		seen++
		return stop
	})
	if err != stop || seen != 1 { //nolint:errorlint // returned as it is
		t.Errorf("error %v after %d changes, want the caller's after 1", err, seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := overlay.Changes(ctx, up, overlay.NewLive(low), overlay.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestUpperWithoutAttributesIsRefused(t *testing.T) {
	up, err := safefs.OpenDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	low, _ := safefs.OpenDir(t.TempDir())
	defer low.Close()
	if _, err := overlay.Changes(t.Context(), up, overlay.NewLive(low), overlay.Options{}); !errors.Is(err, overlay.ErrUnsupportedUpper) {
		t.Errorf("an upper in /proc: %v, want ErrUnsupportedUpper", err)
	}
}

func TestLiveBaseThroughAFileOrLinkIsMissing(t *testing.T) {
	low, _ := safefs.OpenDir(build(t, "f f 1", "d d", "f d/x 1", "l l d"))
	defer low.Close()
	live := overlay.NewLive(low)
	defer live.Close()
	for _, p := range []string{"f/x", "l/x", "none", "none/x"} {
		if _, err := live.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want not there", p, err)
		}
	}
}
