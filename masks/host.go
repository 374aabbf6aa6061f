package masks

// Type is what lies at a path, not following a final link.
type Type uint8

// The types. Other is a socket, FIFO or device.
const (
	Missing Type = iota
	File
	Dir
	Symlink
	Other
)

// FileID names an inode for as long as it exists.
type FileID struct{ Dev, Ino uint64 }

// Info is what Host tells about a path.
type Info struct {
	Type  Type
	ID    FileID
	Nlink uint64
}

// Host is the host's tree as the session's uid sees it. Every answer is a
// snapshot: the holder checks again, by descriptor, when it mounts.
type Host interface {
	// Lstat returns Missing and no error when path or a directory on the way is not
	// there. An error means that the uid may not look.
	Lstat(path string) (Info, error)
	Readlink(path string) (string, error)
	// ReadDir returns the names in a directory, sorted.
	ReadDir(path string) ([]string, error)
	// Aliases looks for other names of inodes.
	Aliases(q AliasQuery) (AliasAnswer, error)
}

// AliasQuery asks whether hidden files can be reached by further hard links.
type AliasQuery struct {
	// Files are hidden files with more than one link, by path.
	Files map[string]Info
	// Dirs are hidden directories; files in them with more than one link count too.
	// At most DirLimit entries of each are looked at, upper levels first.
	Dirs     []string
	DirLimit int
	// Roots is where other names would show. Hidden paths below them are not entered.
	Roots []string
	// Skip are directories that are not to be looked into, such as network mounts.
	Skip  []string
	Limit int // entries looked at below Roots, all together
}

// HardLink is a visible name of a hidden file.
type HardLink struct{ Hidden, Visible string }

// AliasAnswer holds what was found, sorted. Unsure are hidden files whose other
// names were not found before the limit.
type AliasAnswer struct {
	Links  []HardLink
	Unsure []string
}
