package overlay

import (
	"context"
	"os"

	"github.com/sbxd/sbxd/internal/safefs"
)

// Entry is what the base has at a path.
type Entry struct {
	Type     Type
	Mode     uint32 // 07777
	Size     int64  // of a regular file
	Target   string // of a symlink
	Rdev     uint64 // of a device
	Nlink    uint32
	Dev, Ino uint64
	MTime    safefs.Time
	Xattrs   map[string][]byte // user.*; nil = not known, compared as equal
	Mount    bool              // another file system is mounted here: what it covers is not known
}

// Base is the tree that an upper is compared with: the real one (Live) or a
// recorded one. Paths are relative to its root; "" is the root.
type Base interface {
	// Lstat returns the entry at path, without following a link. An error
	// that is fs.ErrNotExist means nothing is there, or a parent is missing
	// or not a directory.
	Lstat(path string) (Entry, error)
	// ReadDir returns the names in the directory at path, in any order.
	ReadDir(path string) ([]string, error)
	// SameBytes reports whether the regular file at path has exactly the
	// bytes of f, which is at its start. Sizes are equal when it is asked.
	SameBytes(ctx context.Context, path string, f *os.File) (bool, error)
}
