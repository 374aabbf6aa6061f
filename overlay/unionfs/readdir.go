package unionfs

import (
	"errors"
	"sort"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A listing is ordered by a keyed hash of the names, and the hash is the offset
// that the kernel sends to go on. So a reader needs no state here: whatever changes
// meanwhile, an entry that stays is listed exactly once. The key is random, since
// an agent could choose names that collide.

// OpenDir is not asked in plain mode: the kernel takes ENOSYS for "always, and
// cache the listing".
func (f *fs) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if f.opt.Asker == nil {
		return fuse.ENOSYS
	}
	n, err := f.dirNode(in.NodeId)
	if err == nil {
		err = f.ask(n, cancel, in.Pid, false)
	}
	if err != nil {
		return status(err)
	}
	out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// ReleaseDir has nothing to do: listings have no state.
func (f *fs) ReleaseDir(*fuse.ReleaseIn) {}

// list returns the listing of n, for a reader that begins always that of now.
func (f *fs) list(n *node, offset uint64) (*listing, error) {
	if l := n.list.Load(); l != nil && offset != 0 && (!l.old.Load() || time.Since(l.made) < listAge) {
		return l, nil
	}
	f.watch(n)
	n.mu.RLock()
	defer n.mu.RUnlock()
	l, err := f.readMerged(n)
	if err == nil {
		n.list.Store(l)
	}
	return l, err
}

// after returns the entries with larger cookies than offset.
func (l *listing) after(offset uint64) []dirent {
	i := sort.Search(len(l.names), func(i int) bool { return l.names[i].cookie > offset })
	return l.names[i:]
}

// ReadDirPlus lists names and what they are. Each entry counts as a LOOKUP. The kernel
// asks for nothing less, since it was not told to choose (FUSE_READDIRPLUS_AUTO).
func (f *fs) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readDir(in, func(d *node, de dirent) (bool, error) {
		var e entry
		n, err := f.lookNode(d, de.name, &e)
		if errors.Is(err, unix.EACCES) { // it may be read and not be searched
			ino := f.mapInode(key{dev: f.layerDev(de.layer), ino: de.ino})
			return out.AddDirLookupEntry(fuse.DirEntry{Mode: de.kind, Name: de.name, Ino: ino, Off: de.cookie}) != nil, nil
		}
		if err != nil || n.masked.Load() || f.mustLink(n, &e) {
			if err == nil {
				f.Forget(n.id, 1)
			}
			if err == nil && !n.masked.Load() { // the LOOKUP to come gives it its name
				return out.AddDirLookupEntry(fuse.DirEntry{Mode: n.kind, Name: de.name, Ino: n.ino, Off: de.cookie}) != nil, nil
			}
			return true, unlessGone(err)
		}
		eo := out.AddDirLookupEntry(fuse.DirEntry{Mode: n.kind, Name: de.name, Ino: n.ino, Off: de.cookie})
		if eo == nil {
			f.Forget(n.id, 1)
			return false, nil
		}
		f.entryOut(d, n, &e.st, eo)
		return true, nil
	}, func(e fuse.DirEntry) bool { return out.AddDirLookupEntry(e) != nil })
}

// unlessGone returns nil if err says that an entry went while the list was read, or
// was a mark.
func unlessGone(err error) error {
	if isGone(err) || errors.Is(err, unix.ESTALE) {
		return nil
	}
	return err
}

// readDir calls add for each entry after the offset that the kernel asks for, until
// it returns false.
func (f *fs) readDir(in *fuse.ReadIn, add func(*node, dirent) (bool, error), dot func(fuse.DirEntry) bool) fuse.Status {
	n, err := f.dirNode(in.NodeId)
	if err != nil {
		return status(err)
	}
	l, err := f.list(n, in.Offset)
	if err != nil {
		return status(err)
	}
	dots := [...]fuse.DirEntry{
		{Name: ".", Mode: unix.S_IFDIR, Ino: n.ino, Off: cookieDot},
		{Name: "..", Mode: unix.S_IFDIR, Ino: f.parentInode(n), Off: cookieDotDot},
	}
	for _, d := range dots {
		if in.Offset < d.Off && !dot(d) {
			return fuse.OK
		}
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	rest := l.after(in.Offset)
	if len(rest) == 0 {
		n.list.CompareAndSwap(l, nil) // the kernel has it now
	}
	for _, de := range rest {
		if f.isHiddenEntry(de) {
			continue
		}
		more, err := add(n, de)
		if err != nil {
			return status(err)
		}
		if !more {
			return fuse.OK
		}
	}
	return fuse.OK
}

func (f *fs) parentInode(n *node) uint64 {
	if p := f.anyParent(n); p != nil {
		return p.ino
	}
	return n.ino
}
