package masks

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
)

// maxSeed bounds one copied file, in bytes: settings and logins are small.
const maxSeed = 16 << 20

// MakeOwnDirs makes the directories of an agent that are not there yet, mode 0700,
// with the rights of the calling process, which has the session's uid. The seeds of a
// directory are copied before it gets its name, so they are copied once. A seed that
// is not there is left out; one that cannot be copied is a warning, because the agent
// can log in anew.
func MakeOwnDirs(dirs []OwnDir) (warnings []string, err error) {
	for _, d := range dirs {
		w, err := makeOwnDir(d)
		warnings = append(warnings, w...)
		if err != nil {
			return warnings, fmt.Errorf("make the agent's directory %s: %w", d.Path, err)
		}
	}
	return warnings, nil
}

func makeOwnDir(d OwnDir) (warnings []string, err error) {
	top, rel, err := existing(filepath.Dir(d.Path))
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if rel != "." {
		if err := top.MkdirAll(rel, 0o700); err != nil {
			return nil, err
		}
	}
	within, err := top.Sub(rel)
	if err != nil {
		return nil, err
	}
	defer within.Close()
	name := filepath.Base(d.Path)
	st, err := within.Lstat(name)
	switch {
	case err == nil && st.IsDir():
		return nil, nil
	case err == nil:
		return nil, errors.New("it is there, but is no directory")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	fresh := "new-" + name
	if err := within.RemoveAll(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // what a start left that was killed
	}
	if err := within.Mkdir(fresh, 0o700); err != nil {
		return nil, err
	}
	if warnings, err = seed(within, fresh, d.Seed); err != nil {
		return warnings, err
	}
	err = within.RenameNoReplace(fresh, within, name)
	if errors.Is(err, fs.ErrExist) {
		return warnings, within.RemoveAll(fresh) // another start was first
	}
	return warnings, err
}

// existing opens the deepest directory of path that is there.
func existing(path string) (*safefs.Dir, string, error) {
	for dir := path; ; dir = filepath.Dir(dir) {
		d, err := safefs.OpenReal(dir)
		if err == nil {
			rel, _ := filepath.Rel(dir, path)
			return d, rel, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return nil, "", err
		}
	}
}

func seed(within *safefs.Dir, fresh string, seeds []Seed) (warnings []string, err error) {
	to, err := within.Sub(fresh)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	for _, s := range seeds {
		data, err := readSeed(s.From)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s is not copied for the agent: %v", s.From, err))
			continue
		}
		if err := write(to, s.To, data); err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

// readSeed reads a file of the user's own. Links are followed: only the user made
// them, since no session writes the real HOME.
func readSeed(path string) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	dir, err := safefs.OpenReal(filepath.Dir(real))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadRegular(filepath.Base(real), maxSeed)
}

func write(dir *safefs.Dir, rel string, data []byte) error {
	if parent := filepath.Dir(rel); parent != "." {
		if err := dir.MkdirAll(parent, 0o700); err != nil {
			return err
		}
	}
	f, err := dir.Open(rel, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
