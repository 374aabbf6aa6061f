package overlay_test

import (
	"path"
	"slices"
	"testing"

	"github.com/sbxd/sbxd/overlay"
)

// TestHiddenNamesAreLeftOut: also from a directory that went, or was replaced, as a whole.
func TestHiddenNamesAreLeftOut(t *testing.T) {
	hidden := func(p string) bool { return path.Base(p) == ".env" }
	base := build(t, "d a", "d a/b", "f a/b/.env s", "f a/b/x 1", "d a/c", "f a/c/y 1", "f .env s", "d o", "f o/.env s", "f o/z 1", "d p", "f p/.env s")
	upper := build(t, "w a", "f .env 2", "d n", "f n/.env 3", "f n/x 1", "d o", "x o user.overlay.opaque=y", "f p 1")
	s, err := decode(t, base, upper, overlay.Options{Hidden: hidden})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{".env", "a", "a/b", "a/b/.env", "n/.env", "o/.env", "p"}; !slices.Equal(s.Masked, want) {
		t.Errorf("masked %q, want %q", s.Masked, want)
	}
	want := []string{"delete a/b/x", "delete a/c", "delete a/c/y", "add n", "add n/x", "delete o/z"}
	if got := show(s); !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
}
