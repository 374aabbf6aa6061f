package unionfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A file of a lower with several names stays one file: the copy gets those names
// that the kernel knows, and each other one when it is looked up (linkCopy). Which
// file of a lower has a copy is in the origin mark of the copy; an upper that has
// such copies carries a mark on its root, and is searched once, when a file of a
// lower with several names is first met. When the copy has lost its last name, names
// that were never looked up are those of the lower's file again, as after the kernel's
// overlayfs has broken a link.

func (f *fs) anyLink(n *node) (link, bool) {
	f.tree.RLock()
	defer f.tree.RUnlock()
	if len(n.links) == 0 {
		return link{}, false
	}
	return n.links[0], true
}

func (f *fs) allLinks(n *node) []link {
	f.tree.RLock()
	defer f.tree.RUnlock()
	return append([]link(nil), n.links...)
}

// markCopied writes on a copy what it was copied from.
func (f *fs) markCopied(n *node, tmp int, nlink uint32) error {
	f.tree.RLock()
	low, layer := n.low, n.layer
	f.tree.RUnlock()
	err := unix.Fsetxattr(tmp, markOrigin, origin(low, layer), 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return err
	}
	f.markRoot(nlink > 1)
	return nil
}

// markRoot remembers for the next start that the upper has origins, and whether
// some belong to files with several names.
func (f *fs) markRoot(several bool) {
	value := "n"
	if several {
		value = "y"
	}
	if f.copied.Load() && (!several || f.several.Load()) {
		return
	}
	fd, err := f.acquire(f.root, upperLayer)
	if err != nil {
		return
	}
	defer f.root.release()
	if unix.Setxattr(self(fd), markImpure, []byte(value), 0) == nil {
		f.copied.Store(true)
		if several {
			f.several.Store(true)
		}
	}
}

// mustLink reports whether lookup found a name of a lower whose file has a copy.
func (f *fs) mustLink(n *node, e *entry) bool {
	return e.layer > 0 && n.dir == nil && n.inUpper.Load()
}

// linkCopy gives the copy the further name.
func (f *fs) linkCopy(d *node, name string, n *node) error {
	if err := f.raise(d, nil, 0, false); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	to, err := f.acquire(d, upperLayer)
	if err != nil {
		return err
	}
	defer d.release()
	var st unix.Statx_t
	if err := statAt(to, "", &st); err != nil {
		return err
	}
	err = f.writable(to, func() error { return f.linkFrom(n, link{d, name}, to) })
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	_ = unix.UtimesNanoAt(to, "", times(&st), unix.AT_EMPTY_PATH)
	f.tree.Lock()
	n.extra = max(n.extra-1, 0)
	f.tree.Unlock()
	return nil
}

// linkFrom links n to a new name by any of its other names.
func (f *fs) linkFrom(n *node, l link, to int) error {
	err := error(unix.ENOENT)
	for _, from := range f.allLinks(n) {
		if from == l {
			continue
		}
		fd, aerr := f.acquire(from.parent, upperLayer)
		if aerr != nil {
			err = aerr
			continue
		}
		err = unix.Linkat(fd, from.name, to, l.name, 0)
		from.parent.release()
		if err == nil || errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return err
}

// findCopy makes the copy of a lower's file known, if an earlier run made one. The
// caller calls done once it has the node.
func (f *fs) findCopy(low key) (done func()) {
	none := func() {}
	if !f.several.Load() || f.fresh {
		return none
	}
	f.index.once.Do(func() {
		f.index.at = map[key][]string{}
		f.indexDir(f.root)
	})
	path := f.index.at[low]
	if path == nil || f.isCopied(low) {
		return none
	}
	d, last := f.root, (*node)(nil)
	for _, name := range path {
		var e entry
		if d == nil || f.look(d, name, &e) != nil || e.layer != 0 {
			break
		}
		n := f.intern(d, name, &e)
		if last != nil {
			f.Forget(last.id, 1)
		}
		last, d = n, n
		if n.dir == nil {
			d = nil
		}
	}
	if last == nil {
		return none
	}
	return func() { f.Forget(last.id, 1) }
}

func (f *fs) isCopied(low key) bool {
	f.tree.RLock()
	defer f.tree.RUnlock()
	n := f.byKey[low]
	return n != nil && n.inUpper.Load()
}

// maxIndexed bounds the names that the search keeps, some 200 bytes each.
const maxIndexed = 1 << 20

// indexDir notes the origins of the files with origin marks below a directory of
// the upper.
func (f *fs) indexDir(d *node) {
	fd, err := f.acquire(d, upperLayer)
	if err != nil {
		return
	}
	defer d.release()
	f.indexFD(fd, nil)
}

func (f *fs) indexFD(dir int, path []string) {
	names, err := readDir(dir)
	if err != nil {
		return
	}
	for _, de := range names {
		if len(f.index.at) >= maxIndexed {
			return
		}
		at := append(path[:len(path):len(path)], de.name)
		switch de.kind {
		case unix.S_IFREG:
			if k, ok := f.originAt(selfAt(dir, de.name)); ok {
				f.index.at[k] = at
			}
		case unix.S_IFDIR:
			fd, err := openAt(dir, de.name, unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				continue
			}
			f.indexFD(fd, at)
			_ = unix.Close(fd)
		}
	}
}
