package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	state := filepath.Dir(filepath.Dir(s.launch.Dir))
	for i, v := range p.spec.Views {
		if err := s.matchRoot(dir, v); err != nil {
			return err
		}
		if p.spec.Views[i].Pins, err = pins(state, v, p.placeholders); err != nil {
			return err
		}
	}
	return nil
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

// pins returns a directory that holds the placeholders of one view. Sessions with the
// same rules share it: a lower directory is never written, and making a hundred empty
// files takes longer than the rest of a start.
func pins(state string, v holder.View, all []masks.Placeholder) (string, error) {
	list, sum := of(v, all)
	if len(list) == 0 {
		return "", nil
	}
	name := hex.EncodeToString(sum[:16])
	path := filepath.Join(state, pinsIn, name)
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	root, err := safefs.OpenDir(state)
	if err != nil {
		return "", fmt.Errorf("open the state root: %w", err)
	}
	defer root.Close()
	if err := root.MkdirAll(pinsIn, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of placeholders: %w", err)
	}
	return path, makePins(root, name, list)
}

// pinsIn is where placeholders are, below the state root of a user.
const pinsIn = "pins"

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

// makePins makes a set under a name of its own and moves it into place; of two that do
// so at once, the first wins.
func makePins(root *safefs.Dir, name string, list []masks.Placeholder) error {
	tmp := fmt.Sprintf("%s/new-%s-%d", pinsIn, name, os.Getpid())
	if err := root.Mkdir(tmp, 0o755); err != nil {
		return fmt.Errorf("make placeholders: %w", err)
	}
	dir, err := root.Sub(tmp)
	if err == nil {
		err = holder.MakePlaceholders(dir, list)
		_ = dir.Close()
	}
	if err == nil {
		err = root.RenameNoReplace(tmp, root, pinsIn+"/"+name)
	}
	if err != nil {
		_ = root.RemoveAll(tmp)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
