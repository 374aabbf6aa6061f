package holder

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/hostpath"
	"github.com/sbxd/sbxd/masks"
)

// A directory that a lower layer of a view has cannot be renamed (EXDEV), and the
// placeholders see to it that the directories above a mask are such ones. But an earlier
// run may have put its own in the place of one, when the path below was not masked yet:
// that one is in the upper layer alone.

// pinMovable pins the directories above the masked path that the session could move.
func (b *builder) pinMovable(path string) error {
	if !b.spec.Resume {
		return nil // every upper layer is empty
	}
	i := b.viewOf(path)
	if i < 0 {
		return nil
	}
	root := b.spec.Views[i].Path
	parts := strings.Split(hostpath.Rel(path, root), "/")
	movable := false
	for n := 1; n < len(parts); n++ {
		rel := strings.Join(parts[:n], "/")
		movable = movable || b.views[i].upperOnly(rel)
		at := root + "/" + rel
		if !movable || b.pinned[at] {
			continue
		}
		if err := b.pin(at); replaced(err) {
			return nil
		} else if err != nil {
			return err
		}
		b.pinned[at] = true
	}
	return nil
}

// viewOf returns the number of the innermost view that path lies in, or -1.
func (b *builder) viewOf(path string) int {
	found := -1
	for i, v := range b.spec.Views {
		if path != v.Path && masks.Within(path, v.Path) && (found < 0 || len(v.Path) > len(b.spec.Views[found].Path)) {
			found = i
		}
	}
	return found
}

// upperOnly reports whether the directory rel, whose parent a lower layer has, is of the
// upper layer alone: opaque, or below nothing.
func (l layers) upperOnly(rel string) bool {
	dir, err := walk(l.upper, rel)
	if err != nil {
		return false
	}
	defer dir.Close()
	mark := make([]byte, 1)
	if n, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), "user.overlay.opaque", mark); err == nil && n == 1 && mark[0] == 'y' {
		return true
	}
	return !hasDir(l.lower, rel) && (l.pins == nil || !hasDir(l.pins, rel))
}

func hasDir(layer *os.File, rel string) bool {
	f, err := walk(layer, rel)
	if err != nil {
		return false
	}
	defer f.Close()
	dir, err := isDir(f)
	return err == nil && dir
}
