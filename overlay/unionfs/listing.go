package unionfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

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
		if layer != f.pins() && f.held(n, de.name) {
			continue
		}
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

// openDir opens a directory for reading, not by the name ".", which wants the right to
// search it. One of the upper that its owner has made unreadable is readable for a moment:
// whether it is empty must be known.
func (f *fs) openDir(fd int, upper bool) (int, error) {
	own, err := reopen(fd, unix.O_RDONLY|unix.O_DIRECTORY)
	if upper && errors.Is(err, unix.EACCES) {
		err = f.opened(fd, err, func() error {
			own, err = reopen(fd, unix.O_RDONLY|unix.O_DIRECTORY)
			return err
		})
	}
	return own, err
}

// readDir reads all entries of a directory.
func readDir(fd int) ([]dirent, error) {
	own, err := reopen(fd, unix.O_RDONLY|unix.O_DIRECTORY)
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
