package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

// makeDirs makes the session's directories that are missing and the placeholders of
// its views. A resume finds them and only adds what new rules need.
func (s *shim) makeDirs(p *plan) error {
	dir, err := safefs.OpenDir(s.launch.Dir)
	if err != nil {
		return fmt.Errorf("open the session's directory: %w", err)
	}
	defer dir.Close()
	for _, name := range session.DataDirs {
		if err := dir.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the session's directories: %w", err)
		}
	}
	label, err := s.label()
	if err != nil {
		return err
	}
	for i, v := range p.spec.Views {
		p.spec.Views[i].Label = label
		if err := s.matchRoot(dir, v); err != nil {
			return err
		}
		if p.spec.Views[i].Pins, err = s.pins(v, p.placeholders); err != nil {
			return err
		}
	}
	return nil
}

// label is how the session's views are told from those of any other.
func (s *shim) label() (string, error) {
	path := filepath.Dir(s.launch.Dir)
	dir, err := safefs.OpenReal(path)
	if err != nil {
		return "", fmt.Errorf("open the directory of sessions: %w", err)
	}
	defer dir.Close()
	st, err := dir.Lstat("")
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	return session.Label{ID: s.record.ID, In: session.DirID{Dev: st.Dev, Ino: st.Ino}}.String(), nil
}

// matchRoot gives the upper directory the mode of the real one: the root of an overlay
// shows the attributes of its upper.
func (s *shim) matchRoot(dir *safefs.Dir, v holder.View) error {
	if s.launch.Resume {
		return nil
	}
	real, err := safefs.OpenReal(v.Path)
	if err != nil {
		return fmt.Errorf("open %s: %w", v.Path, err)
	}
	defer real.Close()
	st, err := real.Lstat(".")
	if err != nil {
		return fmt.Errorf("look at %s: %w", v.Path, err)
	}
	name := v.Dir[len(s.launch.Dir)+1:] + "/upper"
	if err := dir.Chmod(name, st.Mode&0o7777); err != nil {
		return fmt.Errorf("prepare the view of %s: %w", v.Path, err)
	}
	return nil
}

// pins returns a directory that holds the placeholders of one view, and keeps it there
// for as long as this process lives. Sessions with the same rules share it: a lower
// directory is never written, and making a hundred empty files takes longer than the
// rest of a start.
func (s *shim) pins(v holder.View, all []masks.Placeholder) (string, error) {
	list, sum := of(v, all)
	if len(list) == 0 {
		return "", nil
	}
	state := filepath.Dir(filepath.Dir(s.launch.Dir))
	path, hold, err := session.HoldPins(state, hex.EncodeToString(sum[:16]), func(dir *safefs.Dir) error {
		return holder.MakePlaceholders(dir, list)
	})
	if err == nil {
		s.held = append(s.held, hold)
	}
	return path, err
}

// of selects the placeholders of a view and names the set.
func of(v holder.View, all []masks.Placeholder) ([]masks.Placeholder, [sha256.Size]byte) {
	var list []masks.Placeholder
	h := sha256.New()
	for _, p := range all {
		if p.View == v.Path {
			list = append(list, p)
			fmt.Fprintf(h, "%d %d %s\x00", p.Kind, len(p.Path), p.Path)
		}
	}
	return list, [sha256.Size]byte(h.Sum(nil))
}
