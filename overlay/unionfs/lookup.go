package unionfs

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// entry is what one name of a directory is, over all layers.
type entry struct {
	st    unix.Statx_t // of the topmost object
	layer int          // 0 the upper, i+1 lower i
	key   key          // identity of that object
	low   key          // of the lower's: the topmost directory, or what a file was copied from
	ino   uint64       // of the lower's file that a file of the upper was copied from
	// Of a directory: which lowers have a part, and whether the upper's hides them.
	lower  uint32
	opaque bool
	// whiteout: the upper says that the name is gone. Nothing else is set then.
	whiteout bool
}

// look finds what name is in d. The answer is ENOENT where nothing is; e.whiteout
// may be set then.
func (f *fs) look(d *node, name string, e *entry) error {
	*e = entry{}
	held := f.held(d, name)
	if d.inUpper.Load() && !held {
		if done, err := f.lookUpper(d, name, e); done || err != nil {
			return err
		}
	}
	f.tree.RLock()
	lower, opaque := d.lower, d.opaque
	f.tree.RUnlock()
	found := e.key != key{}
	if opaque || lower == 0 || found && e.opaque {
		if found {
			return nil
		}
		return unix.ENOENT
	}
	for i := range f.lowers {
		if lower&(1<<i) == 0 || held && i+1 != f.pins() {
			continue
		}
		more, err := f.lookLower(d, i, name, e)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if e.key == (key{}) {
		return unix.ENOENT
	}
	return nil
}

// pins is the layer that has the mountpoints.
func (f *fs) pins() int { return len(f.lowers) }

// lookUpper reports whether the upper alone decides.
func (f *fs) lookUpper(d *node, name string, e *entry) (done bool, err error) {
	fd, err := f.acquire(d, upperLayer)
	if err != nil {
		return true, err
	}
	defer d.release()
	done, err = f.readUpperEntry(fd, name, e)
	if errors.Is(err, unix.EACCES) {
		err = f.opened(fd, err, func() error {
			done, err = f.readUpperEntry(fd, name, e)
			return err
		})
	}
	return done, err
}

func (f *fs) readUpperEntry(fd int, name string, e *entry) (done bool, err error) {
	err = statAt(fd, name, &e.st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	if isWhiteout(&e.st) {
		e.whiteout = true
		return true, unix.ENOENT
	}
	e.key = keyOf(&e.st)
	switch kindOf(&e.st) {
	case unix.S_IFDIR:
		e.opaque = f.isOpaque(fd, name)
		return e.opaque, nil
	case unix.S_IFREG:
		if e.st.Size == 0 && f.isXattrWhiteout(fd, name) {
			e.whiteout, e.key = true, key{}
			return true, unix.ENOENT
		}
		if f.copied.Load() {
			f.readOrigin(fd, name, e)
		}
	}
	return true, nil
}

// lookLower adds what lower i has, and reports whether those below count too.
func (f *fs) lookLower(d *node, i int, name string, e *entry) (more bool, err error) {
	fd, err := f.acquire(d, i+1)
	if isGone(err) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer d.release()
	found := e.key != key{}
	st := &e.st
	var below unix.Statx_t
	if found {
		st = &below
	}
	err = statAt(fd, name, st)
	switch {
	case isGone(err):
		return true, nil
	case err != nil:
		return false, err
	case isWhiteout(st):
		return false, nil
	case found && kindOf(st) != unix.S_IFDIR:
		return false, nil
	}
	if !found {
		e.layer, e.key = i+1, keyOf(st)
		e.low = e.key
	}
	if kindOf(st) != unix.S_IFDIR {
		return false, nil
	}
	if e.lower == 0 {
		e.low = keyOf(st)
	}
	if !isMountRoot(st) { // what lies below a mount cannot be seen
		e.lower |= 1 << i
	}
	return true, nil
}

// below reports whether a lower has something at name that d would show if its
// upper had nothing there, and whether that is a directory.
func (f *fs) below(d *node, name string) (there, isDir bool, err error) {
	f.tree.RLock()
	lower, opaque := d.lower, d.opaque
	f.tree.RUnlock()
	if opaque {
		return false, false, nil
	}
	var e entry
	for i := range f.lowers {
		if lower&(1<<i) == 0 {
			continue
		}
		more, err := f.lookLower(d, i, name, &e)
		if err != nil {
			return false, false, err
		}
		if e.key != (key{}) || !more {
			break
		}
	}
	return e.key != key{}, e.key != key{} && kindOf(&e.st) == unix.S_IFDIR, nil
}

// Lookup answers what a name of a directory is.
func (f *fs) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if err := checkName(name); err != nil {
		return status(err)
	}
	d, err := f.dirNode(h.NodeId)
	if err != nil {
		return status(err)
	}
	if f.opt.Masks.hides(d.states, name) {
		out.SetEntryTimeout(long)
		return fuse.OK // node 0: nothing is there, also tomorrow
	}
	f.watch(d)
	var e entry
	d.mu.RLock()
	n, err := f.lookNode(d, name, &e)
	d.mu.RUnlock()
	if err == nil && f.mustLink(n, &e) {
		err = f.linkCopy(d, name, n)
		if err == nil {
			err = f.statNode(n, &e.st)
		}
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		out.SetEntryTimeout(f.namesValid(d))
		return fuse.OK
	case err != nil:
		return status(err)
	case n.masked.Load():
		f.Forget(n.id, 1)
		return fuse.ENOENT
	}
	f.entryOut(d, n, &e.st, out)
	return fuse.OK
}

// lookNode is look and intern; d.mu is held.
func (f *fs) lookNode(d *node, name string, e *entry) (*node, error) {
	if err := f.look(d, name, e); err != nil {
		return nil, err
	}
	if e.layer > 0 && kindOf(&e.st) == unix.S_IFREG && e.st.Nlink > 1 {
		defer f.findCopy(e.key)()
	}
	return f.intern(d, name, e), nil
}

// entryOut fills the answer about n, which d has just been asked for.
func (f *fs) entryOut(d, n *node, st *unix.Statx_t, out *fuse.EntryOut) {
	out.NodeId, out.Generation = n.id, 1
	f.fill(n, st, &out.Attr)
	out.SetAttrTimeout(f.attrValid(n, st, d))
	out.SetEntryTimeout(f.entryValid(d, n))
}

// namesValid is how long it stays true that a directory has no such name.
func (f *fs) namesValid(d *node) (t timeout) {
	if f.onlyUpper(d) || d.watched.Load() {
		return long
	}
	return short
}

// entryValid is how long a name of d may be taken for n.
func (f *fs) entryValid(d, n *node) timeout {
	if n.inUpper.Load() && n.dir == nil {
		return long
	}
	return f.namesValid(d)
}

// attrValid is how long the attributes of n, found in d if that is known, hold.
func (f *fs) attrValid(n *node, st *unix.Statx_t, d *node) timeout {
	switch {
	case n.inUpper.Load() && n.passing():
		return 0 // the kernel writes without us: mapped stores change times unseen
	case n.inUpper.Load():
		return long
	case n.dir != nil:
		f.watch(n)
		if n.watched.Load() {
			return long
		}
	case d != nil && d.watched.Load() && st.Nlink == 1: // other names lie elsewhere
		return long
	}
	return short
}

// onlyUpper reports whether no lower has a part of d.
func (f *fs) onlyUpper(d *node) bool {
	f.tree.RLock()
	defer f.tree.RUnlock()
	return d.lower == 0 || d.opaque
}
