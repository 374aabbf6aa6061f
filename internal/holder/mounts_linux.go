package holder

import (
	"os"

	"github.com/sbxd/sbxd/internal/mnt"
)

// These give package mnt's descriptors an owner.

func clone(f *os.File, recursive bool) (*os.File, error) {
	fd, err := mnt.Clone(int(f.Fd()), recursive)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func tmpfs(size, inodes int64, mode uint32) (*os.File, error) {
	fd, err := mnt.Tmpfs(size, inodes, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tmpfs"), nil
}

func setAttr(f *os.File, attr uint64, recursive bool) error {
	return mnt.SetAttr(int(f.Fd()), attr, 0, recursive)
}

// move attaches a detached mount on the very object that at refers to.
func move(tree, at *os.File) error { return mnt.Move(int(tree.Fd()), int(at.Fd()), "") }
