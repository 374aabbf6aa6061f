package unionfs

import (
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// A masked file may have a second name that no mask matches. Listings and events tell of
// the masked name; until one does, a search of the lower has to. It runs beside the
// requests, since a HOME takes seconds.

// topLower is the layer of the first lower.
const topLower = upperLayer + 1

// scanMasked hides the files of the topmost lower that have a masked name, or lie in a
// masked directory, under their other names too.
func (f *fs) scanMasked() {
	fd, err := f.acquire(f.root, topLower)
	if err != nil {
		return
	}
	defer f.root.release()
	f.scanDir(fd, f.root.states, false, 0)
}

// scanDir searches the directory fd, whose state is s; hidden: it lies in a masked one.
func (f *fs) scanDir(fd int, s state, hidden bool, depth int) {
	select {
	case <-f.closed:
		return
	default:
	}
	if depth > overlay.MaxDepth || !hidden && len(s) == 0 {
		return
	}
	entries, err := readDir(fd)
	if err != nil {
		return // whoever is inside cannot read it either
	}
	for _, de := range entries {
		masked := hidden || f.opt.Masks.hides(s, de.name)
		switch {
		case de.kind == unix.S_IFDIR:
			if sub, err := openAt(fd, de.name, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
				f.scanDir(sub, f.opt.Masks.step(s, de.name), masked, depth+1)
				_ = unix.Close(sub)
			}
		case masked:
			f.spotMasked(fd, topLower, de)
		}
	}
}
