package holder

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// baseDirs is the allow-list of the host's root: programs and their configuration.
// What is a link on the host (usr-merge) becomes the same link; what is missing is
// left out. Everything else of the host is not there at all.
var baseDirs = []string{
	"/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/usr",
}

// Base is the allow-list of the host's root that every session sees read-only.
func Base() []string { return slices.Clone(baseDirs) }

// base binds the allow-list read-only.
func (b *framer) base() error {
	for _, path := range baseDirs {
		if err := b.baseDir(path); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	for _, dir := range []string{"/dev", "/proc", runPath, "/tmp", "/var/tmp"} {
		if err := b.mkdirAll(dir); err != nil {
			return err
		}
	}
	return b.makeLink("/var/run", "../run")
}

func (b *framer) baseDir(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return b.makeLink(path, target)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil
	}
	f, err := openPath(path)
	if err != nil {
		return err
	}
	defer f.Close()
	tree, err := clone(f, true)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := setAttr(tree, roFlags, true); err != nil {
		return err
	}
	if err := b.mkdirAll(path); err != nil {
		return err
	}
	return b.put(tree, path)
}
