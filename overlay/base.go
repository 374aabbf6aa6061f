package overlay

import (
	"os"
	"time"
)

// Entry is what the base has at a path.
type Entry struct {
	Type     Type
	Mode     uint32 // 07777
	Size     int64
	Target   string // of a symlink
	Rdev     uint64
	Nlink    uint32
	Dev, Ino uint64
	MTime    time.Time
	Xattrs   map[string][]byte // user.*; nil = not known, compared as equal
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
	// bytes that f has from its start. Sizes are equal when it is asked.
	SameBytes(path string, f *os.File) (bool, error)
}
