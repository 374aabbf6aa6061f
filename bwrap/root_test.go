package bwrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// rootPath is where the holder of the tests, as that of the product, builds the tree.
const rootPath = "/tmp/root"

const readOnly = unix.MOUNT_ATTR_RDONLY | quiet

// quiet are the flags that bubblewrap would otherwise set on each mount by itself.
const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// buildRoot makes a small session root on a tmpfs of its own: the host's programs and
// configuration, fresh scratch, the project with its masks, and this binary.
func buildRoot(s scene) error {
	if !s.Shared {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
	}
	project := -1
	if s.Project != "" {
		fd, err := cloneTree(s.Project) // the tmpfs below covers its path
		if err != nil {
			return err
		}
		project = fd
	}
	if err := errors.Join(tmpfs("/tmp"), os.Mkdir(rootPath, 0o755), tmpfs(rootPath)); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "proc", "tmp", "run"} {
		if err := os.Mkdir(in(dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"usr", "etc", "bin", "sbin", "lib", "lib64"} {
		if err := base("/" + dir); err != nil {
			return err
		}
	}
	if err := errors.Join(tmpfs(in("tmp")), tmpfs(in("run")), copySelf(in("run/sbxbin"))); err != nil {
		return err
	}
	if project >= 0 {
		if err := placeProject(s, project); err != nil {
			return err
		}
	}
	if err := manyMounts(s); err != nil {
		return err
	}
	return setAttr(in("run"), unix.MOUNT_ATTR_RDONLY)
}

func in(rel string) string { return filepath.Join(rootPath, rel) }

func tmpfs(at string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", at, err)
	}
	return nil
}

// base shows a directory of the host read-only, and a link as a link.
func base(dir string) error {
	if target, err := os.Readlink(dir); err == nil {
		return os.Symlink(target, in(dir))
	}
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil // not every host has each of them
	}
	if err := os.Mkdir(in(dir), 0o755); err != nil {
		return err
	}
	return bind(dir, in(dir), readOnly)
}

func cloneTree(from string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("clone %s: %w", from, err)
	}
	return fd, nil
}

func bind(from, to string, attr uint64) error {
	fd, err := cloneTree(from)
	if err != nil {
		return err
	}
	return attach(fd, to, attr)
}

// attach puts a detached tree at a path and closes its descriptor.
func attach(fd int, to string, attr uint64) error {
	defer unix.Close(fd)
	if attr != 0 {
		flags := uint(unix.AT_EMPTY_PATH | unix.AT_RECURSIVE)
		if err := unix.MountSetattr(fd, "", flags, &unix.MountAttr{Attr_set: attr}); err != nil {
			return fmt.Errorf("set attributes for %s: %w", to, err)
		}
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attach %s: %w", to, err)
	}
	return nil
}

func setAttr(path string, attr uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: attr})
}

func copySelf(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	src, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(filepath.Join(dir, "test"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Close()
}

func placeProject(s scene, fd int) error {
	at := in(s.Project)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := attach(fd, at, quiet); err != nil {
		return err
	}
	if !s.Mask {
		return nil
	}
	if err := os.WriteFile("/tmp/empty", nil, 0o444); err != nil {
		return err
	}
	return errors.Join(
		bind("/tmp/empty", filepath.Join(at, ".env"), readOnly),
		bind(filepath.Join(at, ".git"), filepath.Join(at, ".git"), readOnly),
	)
}

// manyMounts lays s.Mounts file mounts, as masks would be.
func manyMounts(s scene) error {
	if s.Mounts == 0 {
		return nil
	}
	attr := uint64(unix.MOUNT_ATTR_RDONLY)
	if !s.Plain {
		attr |= quiet
	}
	dir := in("tmp/many")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile("/tmp/mask", nil, 0o444)); err != nil {
		return err
	}
	// A bind inherits nosuid and nodev from its source: the plain ones need another.
	source := "/tmp/mask"
	if s.Plain {
		source = "/tmp/plain/mask"
		err := errors.Join(os.Mkdir("/tmp/plain", 0o755), unix.Mount("tmpfs", "/tmp/plain", "tmpfs", 0, ""), os.WriteFile(source, nil, 0o444))
		if err != nil {
			return err
		}
	}
	for i := range s.Mounts {
		point := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(point, nil, 0o444); err != nil {
			return err
		}
		if err := bind(source, point, attr); err != nil {
			return err
		}
	}
	return nil
}
