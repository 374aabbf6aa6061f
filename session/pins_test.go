package session

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/internal/testbox"
)

const setName = "0123456789abcdef0123456789abcdef"

// fill makes a set of two placeholders, slowly enough to be met half made.
func fill(dir *safefs.Dir) error {
	if err := dir.Mkdir("first", 0o700); err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	return dir.Mkdir("second", 0o700)
}

// TestHeldPlaceholdersStay: many take hold of a set while somebody removes it as often
// as that is let happen. Whoever holds it finds it whole.
func TestHeldPlaceholdersStay(t *testing.T) {
	dir, err := filepath.EvalSymlinks(testbox.TempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var remover, holders sync.WaitGroup
	removed := 0
	remover.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			switch err := RemoveDir(filepath.Join(dir, pinsIn, setName)); {
			case err == nil:
				removed++
			case !errors.Is(err, ErrBusy):
				t.Errorf("removing: %v", err)
			}
		}
	})
	for range 4 {
		holders.Go(func() {
			for range 50 {
				path, hold, err := HoldPins(dir, setName, fill)
				if err != nil {
					t.Error(err)
					return
				}
				for _, name := range []string{"first", "second"} {
					if _, err := os.Lstat(filepath.Join(path, name)); err != nil {
						t.Errorf("in a set that is held: %v", err)
					}
				}
				_ = hold.Close()
			}
		})
	}
	holders.Wait()
	close(stop)
	remover.Wait()
	if removed == 0 {
		t.Error("it was never removed")
	}
	if err := RemoveDir(filepath.Join(dir, pinsIn, setName)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, pinsIn)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestLabels(t *testing.T) {
	l := Label{ID: "abcdefghijkl", In: DirID{Dev: 64769, Ino: 1 << 60}}
	if got := ParseLabel(l.String()); got != l {
		t.Errorf("ParseLabel(%s) = %+v", l, got)
	}
	for _, s := range []string{
		"", "sbxd", "sbxd:", "sbxd:abcdefghijkl", "sbxd:abcdefghijkl:1", "sbxd:abcdefghijkl:1:2:3", "sbxd:abcdefghijkl:1:2 ",
		"sbxd:abcdefghijkl:+1:2", "sbxd:ABCDEFGHIJKL:1:2", "sbxd:../../../etc:1:2", "sbxe:abcdefghijkl:1:2", "sbxd:abcdefghijkl:-1:2",
	} {
		if got := ParseLabel(s); got != (Label{}) {
			t.Errorf("ParseLabel(%q) = %+v", s, got)
		}
	}
}
