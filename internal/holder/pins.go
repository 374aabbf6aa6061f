package holder

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/masks"
)

// MakePlaceholders makes the empty files and directories of list below dir, which is
// a lower layer of a view. What is there already stays.
func MakePlaceholders(dir *safefs.Dir, list []masks.Placeholder) error {
	for _, p := range list {
		if err := makePlaceholder(dir, p); err != nil {
			return fmt.Errorf("make the mount point %s: %w", p.Path, err)
		}
	}
	return nil
}

func makePlaceholder(dir *safefs.Dir, p masks.Placeholder) error {
	if p.Kind == masks.KindDir {
		return dir.MkdirAll(p.Path, 0o755)
	}
	if parent, _ := split("/" + p.Path); parent != "/" {
		if err := dir.MkdirAll(parent[1:len(parent)-1], 0o755); err != nil {
			return err
		}
	}
	err := dir.Mknod(p.Path, unix.S_IFREG|0o444, 0)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
