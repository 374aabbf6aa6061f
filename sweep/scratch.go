package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/internal/scratch"
	"github.com/sbxd/sbxd/session"
)

// probes lists the directories that probes made outside of the state root: our own, or
// for root everybody's.
func (s *Seen) probes(k Known) {
	if k.Scratch == "" {
		return
	}
	place, err := safefs.OpenReal(k.Scratch)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.fault(k.Scratch, err)
		return
	}
	defer func() { _ = place.Close() }()
	place.OneMount() // what a user mounts there may not answer
	entries, err := place.ReadDir("")
	if err != nil {
		s.fault(k.Scratch, err)
	}
	for _, e := range entries {
		if !scratch.Named(e.Name) || !e.IsDir() {
			continue
		}
		d, err := describe(place, e.Name, true)
		if err != nil || d.UID != os.Geteuid() && os.Geteuid() != 0 {
			continue // gone, a mount, or somebody else's
		}
		d.Base = k.Scratch
		if d.Held, err = held(place, e.Name); err != nil {
			s.fault(d.Path(), err)
			continue
		}
		s.Probes = append(s.Probes, d)
	}
}

func held(place *safefs.Dir, name string) (bool, error) {
	f, err := place.Open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	return scratch.Held(f)
}

// probe plans for a directory that a probe made. It goes when nobody has its lock.
func (p *planner) probe(d Dir) {
	switch {
	case d.Held:
		p.keep("", KindDirectory, d.Path(), "a probe uses it", "its lock is held")
	case p.seen.Now.Sub(d.Changed) < Young: // its maker may be about to lock it
		p.keep("", KindDirectory, d.Path(), "it is young", fmt.Sprintf("changed less than %v ago", Young))
	default:
		p.add(Entry{
			Action: Remove, Kind: KindDirectory, What: d.Path(), Path: d.Path(), UID: d.UID,
			Reason: "a probe left it", Proof: "its lock, which a process has as long as it lives, is free",
		})
	}
}

// isScratch reports whether path is a probe's directory in place.
func isScratch(place, path string) bool {
	return place != "" && filepath.Dir(path) == place && scratch.Named(filepath.Base(path))
}

// unheld refuses a probe's directory that somebody has after all.
func unheld(path string) error {
	place, err := safefs.OpenReal(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = place.Close() }()
	place.OneMount()
	is, err := held(place, filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && is {
		err = fmt.Errorf("%s: %w: a probe uses it", path, session.ErrBusy)
	}
	return err
}
