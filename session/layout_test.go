package session

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// The first sessions of a user may all start at once.
func TestMakeOwnerAtOnce(t *testing.T) {
	testbox.Need(t, "root")
	uid, gid := testbox.AsUser(t)
	for range 20 {
		path := filepath.Join(t.TempDir(), "state")
		r, err := OpenRoot(path)
		if err != nil {
			t.Fatal(err)
		}
		var made atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				ours, err := r.MakeOwner(uid, gid)
				if err != nil {
					t.Error(err)
				}
				if ours {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if n := made.Load(); n != 1 {
			t.Errorf("%d of them made it, want 1", n)
		}
		r.Close()
		entries, err := os.ReadDir(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != "root" && e.Name() != "12345" {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
}
