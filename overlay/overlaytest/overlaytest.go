// Package overlaytest is the suite that every overlay backend must pass.
//
// The one idea: a view behaves as a plain directory does, its upper says exactly
// what was changed, and whoever uses it cannot make it say more. So the same
// operations run on a plain directory and on a view, as an agent runs them
// (without capabilities), and the trees are compared: at once, after a remount,
// and as base + Changes.
//
// It knows what a view promises, not how a backend keeps it. Only tests import
// it; TestMain of such a suite must call testbox.Main.
package overlaytest

import (
	"os"
	"strconv"
	"testing"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
)

// suite is one run of all tests with one identity.
type suite struct {
	backend overlay.Backend
	top     string // where views are made, if not on disk
}

// Run tests the backend with views mounted in user and mount namespaces of their
// own: as the user who runs the tests, and if that is root also as one who is
// not. Each identity is a process of its own.
func Run(t *testing.T, backend func() overlay.Backend) {
	for _, id := range identities(t) {
		t.Run("uid "+strconv.Itoa(id), func(t *testing.T) {
			if !inside() {
				t.Parallel()
				outside(t, id)
				return
			}
			if err := mnt.MakePrivate(); err != nil {
				t.Fatal(err)
			}
			s := &suite{backend: backend()}
			if id == 0 { // root's run is in memory, that of others on disk
				s.top = memory(t)
			}
			for _, g := range groups {
				t.Run(g.name, func(t *testing.T) { g.run(s, t) })
			}
		})
	}
}

// dir returns a new directory for layers.
func (s *suite) dir(t *testing.T) string {
	t.Helper()
	if s.top == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(s.top, "") //nolint:usetesting // in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func identities(t *testing.T) []int {
	if inside() {
		return []int{os.Geteuid()}
	}
	testbox.Need(t, "overlay-userns")
	uid, _ := testbox.AsUser(t)
	if os.Geteuid() == 0 {
		return []int{0, uid}
	}
	return []int{uid}
}

// groups are the parts of the suite, in order.
var groups = []struct {
	name string
	run  func(*suite, *testing.T)
}{
	{"Cases", (*suite).cases},
	{"Files", (*suite).files},
	{"Names", (*suite).names},
	{"Directories", (*suite).directories},
	{"Attributes", (*suite).attributes},
	{"Host", (*suite).host},
	{"Nested mounts", (*suite).nested},
	{"Masks", (*suite).masks},
	{"Forgery", (*suite).forgery},
	{"Uppers", (*suite).uppers},
	{"Random", (*suite).random},
}
