package land

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
)

// makeStateDir makes our own directory in a project: for its owner only, and
// ignored by git.
func makeStateDir(t *tree) error {
	if err := fault.Hit("land.inside.mkdir"); err != nil {
		return err
	}
	if err := t.dir.Mkdir(stateDir, 0o700); errors.Is(err, unix.EROFS) {
		return readOnly(t, err)
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	h, err := handle(t.dir, stateDir)
	if errors.Is(err, unix.ELOOP) {
		return notOurs()
	}
	if err != nil {
		return err
	}
	defer h.Close()
	st, err := safefs.StatFD(int(h.Fd()))
	if err != nil {
		return err
	}
	if !st.IsDir() || st.UID != t.stat.UID {
		return notOurs()
	}
	if st.Perm() != 0o700 {
		if err := chmodHandle(h, 0o700); err != nil {
			return err
		}
	}
	f, err := t.dir.Open(stateDir+"/.gitignore", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

func notOurs() error {
	return &RefusedError{What: stateDir + " in the project", Why: "it is not a directory of the project's owner", Next: "move it away and land again"}
}

// removeInside removes the objects of a landing from the project's own .sbxd, and
// that with the last.
func removeInside(t *tree, id string) error {
	if err := fault.Hit("land.inside.remove"); err != nil {
		return err
	}
	own, err := t.dir.Sub(stateDir)
	if notHere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer own.Close()
	if err := own.RemoveAll(id); err != nil {
		return err
	}
	rest, err := own.ReadDir("")
	if err != nil || len(rest) > 1 || (len(rest) == 1 && rest[0].Name != ".gitignore") {
		return err
	}
	if err := own.Remove(".gitignore"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.dir.Remove(stateDir)
}
