package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// hidden are parts of the base that concern the host only: our own configuration, and
// the socket of a daemon that downloads and builds, outside of any session, for whoever
// asks.
var hidden = []string{"/etc/sbxd", "/nix/var/nix/daemon-socket"}

// base binds the allow-list read-only.
func (b *builder) base() error {
	for _, path := range baseDirs {
		if err := b.baseDir(path); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	for _, path := range hidden {
		if err := b.hide(path); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	for _, dir := range []string{"/dev", "/proc", "/run", "/tmp", "/var/tmp"} {
		if err := b.mkdirAll(dir); err != nil {
			return err
		}
	}
	if err := b.makeLink("/var/run", "../run"); err != nil {
		return err
	}
	return b.links()
}

// hide covers a path of the base, wherever links of the host lead to it.
func (b *builder) hide(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // it is not there, or nobody of this uid gets to it
	}
	err = b.cover(real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // outside of the base
	}
	return err
}

func (b *builder) baseDir(path string) error {
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

// links makes the links anew by which the user reaches HOME, the project or a program
// directory, so that the user's spelling works inside.
func (b *builder) links() error {
	for _, l := range b.spec.Links {
		if scratchPath(l.Path) {
			continue // made by scratch, after /tmp is there
		}
		if err := b.makeLink(l.Path, l.Target); err != nil {
			return err
		}
	}
	return nil
}

// scratch mounts the fresh file systems of the session.
func (b *builder) scratch() error {
	for _, s := range []struct {
		path         string
		size, inodes int64
		mode         uint32
	}{
		{"/tmp", b.spec.TmpSize, tmpInodes, 0o1777},
		{"/var/tmp", b.spec.TmpSize, tmpInodes, 0o1777},
		{"/run", runSize, runInodes, 0o755},
		{b.runtimeDir(), runSize, runInodes, 0o700},
	} {
		if err := b.mkdirAll(s.path); err != nil {
			return err
		}
		if err := b.tmpfs(s.path, s.size, s.inodes, s.mode); err != nil {
			return fmt.Errorf("mount a fresh %s: %w", s.path, err)
		}
	}
	for _, l := range b.spec.Links {
		if err := b.makeLink(l.Path, l.Target); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) runtimeDir() string { return fmt.Sprintf("/run/user/%d", b.spec.UID) }

func (b *builder) tmpfs(path string, size, inodes int64, mode uint32) error {
	fs, err := tmpfs(size, inodes, mode)
	if err != nil {
		return err
	}
	defer fs.Close()
	if err := setAttr(fs, rwFlags, false); err != nil {
		return err
	}
	return b.put(fs, path)
}
