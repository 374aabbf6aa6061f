package unionfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A listing is ordered by a keyed hash of the names, and the hash is the offset
// that the kernel sends to go on. So a reader needs no state here: whatever changes
// meanwhile, an entry that stays is listed exactly once. The key is random, since
// an agent could choose names that collide.

// listing is what a directory of the view holds.
type listing struct {
	names  []dirent // by cookie
	hidden bool     // a mask hides something
	made   time.Time
	old    atomic.Bool // the directory has changed since
}

// listAge is how long a reader in the middle of a directory goes on with a listing
// that is old: an entry that came or went since the reader began may or may not be
// listed (readdir(3)), and to list a large directory anew for each part that rm(1)
// reads of it would take the square of its size.
const listAge = 10 * time.Second

// changed says that the entries of a directory are not what they were.
func (d *dir) changed() {
	if l := d.list.Load(); l != nil {
		l.old.Store(true)
	}
}

type dirent struct {
	name   string
	kind   uint32
	ino    uint64
	cookie uint64
	layer  int
}

// Cookies of the two entries that every directory has. Hashes are above.
const (
	cookieDot    = 1
	cookieDotDot = 2
	firstCookie  = 3
)

func (f *fs) cookie(name string) uint64 {
	return max(maphash.String(f.seed, name)>>1, firstCookie)
}

// readMerged lists n over all layers; n.mu is held.
func (f *fs) readMerged(n *node) (*listing, error) {
	l := &listing{made: time.Now()}
	seen := map[string]bool(nil)
	f.tree.RLock()
	lower, opaque := n.lower, n.opaque
	f.tree.RUnlock()
	if opaque {
		lower = 0
	}
	if lower != 0 {
		seen = map[string]bool{}
	}
	if n.inUpper.Load() {
		if err := f.addLayer(n, upperLayer, l, seen); err != nil {
			return nil, err
		}
	}
	for i := range f.lowers {
		if lower&(1<<i) == 0 {
			continue
		}
		err := f.addLayer(n, i+1, l, seen)
		if err != nil && !isGone(err) && !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ELOOP) {
			return nil, err
		}
	}
	slices.SortFunc(l.names, func(a, b dirent) int {
		if a.cookie < b.cookie {
			return -1
		}
		return 1
	})
	return l, nil
}

// addLayer adds the names of one layer that no layer above has.
func (f *fs) addLayer(n *node, layer int, l *listing, seen map[string]bool) error {
	fd, err := f.acquire(n, layer)
	if err != nil {
		return err
	}
	defer n.release()
	own, err := f.openDir(fd, layer == upperLayer)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	names, err := readEntries(own)
	if err != nil {
		return err
	}
	for _, de := range names {
		if seen != nil {
			if seen[de.name] {
				continue
			}
			seen[de.name] = true
		}
		if de.kind == unix.S_IFCHR || de.kind == 0 {
			var st unix.Statx_t
			if statAt(own, de.name, &st) != nil || isWhiteout(&st) {
				continue
			}
			de.kind = kindOf(&st)
		}
		if f.opt.Masks.hides(n.states, de.name) {
			l.hidden = true
			f.spotMasked(own, layer, de)
			continue
		}
		de.layer, de.cookie = layer, f.cookie(de.name)
		l.names = append(l.names, de)
	}
	return nil
}

// openDir opens a directory for reading. One of the upper that its owner has made
// unreadable is readable for a moment: whether it is empty must be known.
func (f *fs) openDir(fd int, upper bool) (int, error) {
	own, err := openAt(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if upper && errors.Is(err, unix.EACCES) {
		err = f.opened(fd, err, func() error {
			own, err = openAt(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
			return err
		})
	}
	return own, err
}

// readDir reads all entries of a directory.
func readDir(fd int) ([]dirent, error) {
	own, err := openAt(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(own)
	return readEntries(own)
}

// readEntries reads all entries from a directory that was just opened.
func readEntries(fd int) ([]dirent, error) {
	var out []dirent
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return out, nil
		}
		out = parseDirents(out, buf[:n])
	}
}

// parseDirents reads struct linux_dirent64 (getdents(2)).
func parseDirents(out []dirent, b []byte) []dirent {
	const header = 19
	for len(b) > header {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < header || size > len(b) {
			break
		}
		name := b[header:size]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if s := string(name); s != "." && s != ".." {
			out = append(out, dirent{name: s, kind: uint32(b[18]) << 12, ino: binary.NativeEndian.Uint64(b)})
		}
		b = b[size:]
	}
	return out
}

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

// ReadDir lists names.
func (f *fs) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readDir(in, func(n *node, de dirent) (bool, error) {
		ino, err := f.listedInode(n, de)
		if err != nil {
			return true, unlessGone(err)
		}
		return out.AddDirEntry(fuse.DirEntry{Mode: de.kind, Name: de.name, Ino: ino, Off: de.cookie}), nil
	}, func(e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus lists names and what they are. Each entry counts as a LOOKUP.
func (f *fs) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readDir(in, func(d *node, de dirent) (bool, error) {
		var e entry
		n, err := f.lookNode(d, de.name, &e)
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

// listedInode is the inode number that stat(2) gives for an entry.
func (f *fs) listedInode(d *node, de dirent) (uint64, error) {
	if de.layer != upperLayer || !f.copied.Load() && (de.kind != unix.S_IFDIR || f.onlyUpper(d)) {
		return f.mapInode(key{dev: f.layerDev(de.layer), ino: de.ino}), nil
	}
	var e entry
	if err := f.look(d, de.name, &e); err != nil {
		return 0, err
	}
	if n := f.child(&e); n != nil {
		return n.ino, nil
	}
	return f.number(&e), nil
}
