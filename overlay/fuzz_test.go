package overlay_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/overlaytest"
)

func FuzzChanges(f *testing.F) {
	f.Add([]byte{0, 1, 4, 7, 0, 0, 11, 0, 5, 8})                      // an opaque directory
	f.Add([]byte{0, 1, 0, 7, 4, 13, 9, 0})                            // a deleted tree
	f.Add([]byte{4, 1, 0, 0, 9, 6, 6, 2})                             // a file becomes a directory
	f.Add([]byte{0, 1, 4, 7, 3, 0, 21, 0, 3, 2, 14, 2, 15, 2, 13, 4}) // forged marks
	f.Add([]byte{4, 3, 20, 1, 19, 5, 5, 2, 8, 4, 0, 16, 22, 16, 3})   // links, and a mark of another mount
	f.Fuzz(func(t *testing.T, data []byte) {
		base, upper := t.TempDir(), t.TempDir()
		overlaytest.BuildBytes(data, base, upper)
		s, err := decode(t, base, upper, overlay.Options{Hints: true})
		if errors.Is(err, overlay.ErrUnsupportedUpper) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		low, err := overlaytest.ReadTree(base)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range s.Changes {
			if i > 0 && overlay.ComparePaths(s.Changes[i-1].Path, c.Path) >= 0 {
				t.Errorf("%q is not after %q", c.Path, s.Changes[i-1].Path)
			}
			if _, there := low[c.Path]; there == (c.Op == overlay.Add) {
				t.Errorf("%s %q: in the base: %v", c.Op, c.Path, there)
			}
		}
		want := overlaytest.Tree{}
		merge(want, base, upper, "")
		sum := t.TempDir()
		if err := errors.Join(overlaytest.CopyTree(base, sum), overlaytest.Apply(s, upper, sum)); err != nil {
			t.Fatalf("%v\n%q", err, show(s))
		}
		got, err := overlaytest.ReadTree(sum)
		if err != nil {
			t.Fatal(err)
		}
		if diff := want.Diff(got); diff != "" {
			t.Errorf("base + changes is not the view:\n%s\n%q", diff, show(s))
		}
	})
}

// merge is the plainest union of two directories: what a view shows, written
// down a second time. base is "" where nothing of it shows through.
func merge(out overlaytest.Tree, base, upper, prefix string) {
	low, _ := overlaytest.ReadTree(base)
	up, _ := overlaytest.ReadTree(upper)
	for name, line := range low {
		if !strings.Contains(name, "/") && up[name] == "" {
			out[prefix+name] = line
			if isDir(base + "/" + name) {
				merge(out, base+"/"+name, "", prefix+name+"/")
			}
		}
	}
	for name, line := range up {
		if strings.Contains(name, "/") || isWhiteout(upper+"/"+name) {
			continue
		}
		out[prefix+name] = line
		if !isDir(upper + "/" + name) {
			continue
		}
		below := base + "/" + name
		if base == "" || !isDir(below) || attr(upper+"/"+name, "user.overlay.opaque") == "y" {
			below = ""
		}
		merge(out, below, upper+"/"+name, prefix+name+"/")
	}
}

func isDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

func isWhiteout(path string) bool {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 ||
		st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0 && attr(path, "user.overlay.whiteout") != "-"
}

// attr returns the value, or "-".
func attr(path, name string) string {
	var b [64]byte
	n, err := unix.Lgetxattr(path, name, b[:])
	if err != nil {
		return "-"
	}
	return string(b[:n])
}
