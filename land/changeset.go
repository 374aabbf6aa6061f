package land

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/sbxd/sbxd/overlay"
)

// Item is one path of a session that differs from its base and may land.
type Item struct {
	overlay.Change
	Digest Digest // of a regular file that the session has
	copied int    // where its bytes lie while they are landed; 0: nowhere
}

// node is what the session has at the item's path; nil: nothing.
func (it *Item) node() *Node {
	if it.Op == overlay.Delete {
		return nil
	}
	return &Node{
		Path: it.Path, Type: it.Type, Mode: it.Mode, Size: sizeOf(it), MTime: it.MTime, Ino: it.Ino,
		Nlink: it.Nlink, Target: it.Target, Digest: it.Digest, Xattrs: it.Xattrs,
	}
}

func sizeOf(it *Item) int64 {
	if it.Type != overlay.File {
		return 0
	}
	return it.Size
}

// Changeset is all that a session changed, as one value that can be reviewed,
// named by its id and landed.
type Changeset struct {
	ID     string
	Items  []Item // in path order
	Held   []Held
	Opaque []string          // directories that hide what the base has there
	Plan   *Plan             // against the project as it is now; nil for a HOME
	parts  map[string]string // what the id was made of, by path
}

// Empty reports whether there is nothing to land.
func (c *Changeset) Empty() bool { return len(c.Items) == 0 }

const changesetMagic = "sbxd-changeset-1\n"

// identify returns the id of a changeset, and of each path what it was made of.
// It covers what would land and what it would replace: type, mode, bytes, target
// and attributes on the session's side, the recorded marks on the base's.
func identify(items []Item, base *Manifest) (string, map[string]string) {
	all := sha256.New()
	all.Write([]byte(changesetMagic))
	parts := make(map[string]string, len(items))
	for i := range items {
		part := identifyOne(&items[i], base)
		all.Write(part[:])
		parts[items[i].Path] = string(part[:8])
	}
	return hex.EncodeToString(all.Sum(nil)), parts
}

func identifyOne(it *Item, base *Manifest) [sha256.Size]byte {
	e := &encoder{}
	e.str(it.Path)
	e.uint(uint64(it.Op))
	if n := it.node(); n != nil {
		e.uint(uint64(n.Type))
		e.uint(uint64(n.Mode))
		e.int(n.Size)
		e.str(n.Target)
		e.b = append(e.b, n.Digest[:]...)
		for _, k := range slices.Sorted(maps.Keys(n.Xattrs)) {
			e.str(k)
			e.str(string(n.Xattrs[k]))
		}
	}
	if b := base.find(it.Path); b != nil {
		e.uint(uint64(b.Type) + 1)
		if b.Type != overlay.Dir { // a directory's own marks move with what is made in it
			e.uint(uint64(b.Mode))
			e.int(b.Size)
			e.str(b.Target)
			e.time(b.MTime)
			e.time(b.CTime)
			e.uint(b.Ino)
		}
	}
	return sha256.Sum256(e.b)
}

// delta lists the paths whose parts differ.
func delta(a, b map[string]string) []string {
	var out []string
	for p, h := range a {
		if b[p] != h {
			out = append(out, p)
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, overlay.ComparePaths)
	return out
}
