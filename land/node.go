package land

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// permBits are the mode bits that are compared and landed; set-id bits never land.
const permBits = 0o1777

// setIDBits are setuid and setgid.
const setIDBits = 0o6000

// Digest is the SHA-256 of a file's bytes. The zero value says that it is not known.
type Digest [sha256.Size]byte

// Known reports whether the bytes were read.
func (d Digest) Known() bool { return d != Digest{} }

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Node is one entry of a tree as it was seen at one moment.
type Node struct {
	Path   string // below the project; "" is its root
	Type   overlay.Type
	Mode   uint32 // 07777
	UID    uint32
	GID    uint32
	Nlink  uint32
	Ino    uint64
	Size   int64 // of a regular file
	MTime  safefs.Time
	CTime  safefs.Time
	Target string // of a symlink
	Digest Digest // of a regular file, where its bytes were read
	Mount  bool   // the root of a mount, or on another file system than the project
	// Unsure marks an entry of a base whose ctime is not before the start of the
	// session: the host may have changed it since, or what is in it if it is a
	// directory.
	Unsure bool
	Xattrs map[string][]byte // user.*, where they were asked for
}

// fromStat makes a Node of what statx(2) says.
func fromStat(p string, st safefs.Stat, rootDev uint64) Node {
	n := Node{
		Path: p, Type: typeOf(st), Mode: st.Perm(), UID: st.UID, GID: st.GID, Nlink: st.Nlink,
		Ino: st.Ino, MTime: st.Mtime, CTime: st.Ctime, Mount: st.MountRoot || st.Dev != rootDev,
	}
	if n.Type == overlay.File {
		n.Size = st.Size
	}
	return n
}

// samePerm compares modes without the bits that never land. Links have no mode.
func samePerm(a, b *Node) bool {
	return a.Type == overlay.Symlink || a.Mode&permBits == b.Mode&permBits
}

// sameStamp reports whether the kernel's marks say that a file was not touched
// between the two looks. uid and gid are left out: a chown moves the ctime, and
// user namespaces show ids differently.
func sameStamp(a, b *Node) bool {
	return a.Type == b.Type && a.Mode == b.Mode && a.Size == b.Size && a.Ino == b.Ino &&
		a.MTime == b.MTime && a.CTime == b.CTime && a.Mount == b.Mount
}

// sameBytes reports whether both are known to have the same content, whatever
// their modes.
func sameBytes(a, b *Node) bool {
	if a.Type != b.Type {
		return false
	}
	switch a.Type {
	case overlay.File:
		return a.Size == b.Size && a.Digest.Known() && a.Digest == b.Digest
	case overlay.Symlink:
		return a.Target == b.Target
	case overlay.Dir:
		return true
	default:
		return false
	}
}

// parentOf returns the directory of p; that of a name in the root is "".
func parentOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return ""
}

// baseOf returns the last name of p.
func baseOf(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

// below reports whether p lies in the tree at dir, dir itself included.
func below(p, dir string) bool {
	return dir == "" || p == dir || (len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir)
}

// join is path.Join for names that may be anything but "." and "..".
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// leaves reports whether a link at p with this target points out of the project,
// judged by its spelling alone. project is the project's absolute path.
func leaves(project, p, target string) bool {
	if strings.HasPrefix(target, "/") {
		return !below(strings.TrimPrefix(path.Clean(target), "/"), strings.TrimPrefix(path.Clean(project), "/"))
	}
	rel := path.Clean(join(parentOf(p), target))
	return rel == ".." || strings.HasPrefix(rel, "../")
}
