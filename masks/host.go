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

// AliasQuery asks where the inodes Want are linked below Roots. Directories in
// Skip are not entered. At most Limit entries are looked at.
type AliasQuery struct {
	Want  map[FileID]uint64 // inode → its link count
	Roots []string
	Skip  []string
	Limit int
}

// AliasAnswer holds the paths found, sorted, and whether everything was looked at.
type AliasAnswer struct {
	Found    map[FileID][]string
	Complete bool
}
