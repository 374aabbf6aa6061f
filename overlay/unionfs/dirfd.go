package unionfs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// fdCache bounds the descriptors of directories. Those in use are never closed;
// of the others, those not used since the last turn of the clock go first.
type fdCache struct {
	most int64
	open atomic.Int64

	mu   sync.Mutex // guards the fields below
	ring []*node
	hand int
}

// upperLayer is the index of the upper among the descriptors of a directory; lower
// i has index i+1.
const upperLayer = 0

func (f *fs) noFDs() []int {
	fds := make([]int, 1+len(f.lowers))
	for i := range fds {
		fds[i] = -1
	}
	return fds
}

// acquire returns the descriptor of a directory in one layer. It stays open until
// release. ENOENT: the layer has no such directory (any more).
func (f *fs) acquire(n *node, layer int) (int, error) {
	if fd, ok := n.hold(layer); ok {
		return fd, nil
	}
	f.tree.RLock()
	fd, err := f.reach(n, layer)
	f.tree.RUnlock()
	if err != nil {
		return -1, err
	}
	return f.keep(n, layer, fd), nil
}

// hold takes a reference if the descriptor is open.
func (n *node) hold(layer int) (int, bool) {
	n.fdmu.Lock()
	defer n.fdmu.Unlock()
	fd := n.fds[layer]
	if fd < 0 {
		return -1, false
	}
	n.refs++
	n.used = true
	return fd, true
}

func (n *node) release() {
	n.fdmu.Lock()
	n.refs--
	n.fdmu.Unlock()
}

// keep stores fd, unless somebody was faster, and takes a reference.
func (f *fs) keep(n *node, layer, fd int) int {
	n.fdmu.Lock()
	enter := !n.inRing
	n.inRing = true
	if have := n.fds[layer]; have >= 0 {
		_ = unix.Close(fd)
		fd = have
	} else {
		n.fds[layer] = fd
		f.cache.open.Add(1)
	}
	n.refs++
	n.used = true
	n.fdmu.Unlock()
	if enter {
		f.cache.enter(n)
	}
	return fd
}

func (c *fdCache) enter(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring = append(c.ring, n)
	if c.full(c.most) {
		c.evict()
	}
}

// full reports whether more than most descriptors are open, or directories are in
// the ring that may have none.
func (c *fdCache) full(most int64) bool {
	return c.open.Load() > most || int64(len(c.ring)) > most
}

// reach opens a directory by its names from the nearest ancestor that is open, or
// the root, whose descriptors always are. fs.tree is held.
func (f *fs) reach(n *node, layer int) (int, error) {
	if len(n.links) == 0 {
		return -1, unix.ENOENT
	}
	at := n.links[0]
	if fd, ok := at.parent.hold(layer); ok {
		defer at.parent.release()
		return openAt(fd, at.name, unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	fd, err := f.reach(at.parent, layer)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return openAt(fd, at.name, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// evict closes descriptors until a quarter of the bound is free; c.mu is held.
func (c *fdCache) evict() {
	for turns := 2 * len(c.ring); turns > 0 && len(c.ring) > 0 && c.full(c.most*3/4); turns-- {
		c.hand %= len(c.ring)
		n := c.ring[c.hand]
		if !c.tryClose(n) {
			c.hand++
			continue
		}
		last := len(c.ring) - 1
		c.ring[c.hand] = c.ring[last]
		c.ring[last] = nil
		c.ring = c.ring[:last]
	}
}

// tryClose reports whether n has no open descriptor afterwards.
func (c *fdCache) tryClose(n *node) bool {
	n.fdmu.Lock()
	defer n.fdmu.Unlock()
	if n.refs > 0 || n.used {
		n.used = false
		return false
	}
	c.closeLocked(n, 0)
	n.inRing = false
	return true
}

// closeLocked closes the descriptors from index from on; n.fdmu is held and
// nothing uses them.
func (c *fdCache) closeLocked(n *node, from int) {
	for i := from; i < len(n.fds); i++ {
		if n.fds[i] >= 0 {
			_ = unix.Close(n.fds[i])
			n.fds[i] = -1
			c.open.Add(-1)
		}
	}
}

// closeFDs closes what a forgotten directory holds, or leaves it to the clock.
func (f *fs) closeFDs(n *node) {
	n.fdmu.Lock()
	if n.refs == 0 {
		f.cache.closeLocked(n, 0)
	}
	n.used = false
	n.fdmu.Unlock()
}

// closeLowers makes the next acquire look again which directories of the lowers
// lie below n. One that is in use serves its user to the end.
func (f *fs) closeLowers(n *node) {
	n.fdmu.Lock()
	defer n.fdmu.Unlock()
	if n.id == rootID {
		return
	}
	if n.refs == 0 {
		f.cache.closeLocked(n, 1)
		return
	}
	for i := 1; i < len(n.fds); i++ {
		if n.fds[i] >= 0 {
			f.cache.open.Add(-1)
			f.orphans.add(n.fds[i])
			n.fds[i] = -1
		}
	}
}

// orphans are descriptors that a request may still use although their directory
// has let go of them. They are closed once they are old.
type orphans struct {
	mu  sync.Mutex // guards the field below
	fds [2][]int
}

func (o *orphans) add(fd int) {
	o.mu.Lock()
	o.fds[0] = append(o.fds[0], fd)
	o.mu.Unlock()
}

// age closes those that were there at the last call already.
func (o *orphans) age() {
	o.mu.Lock()
	old := o.fds[1]
	o.fds[1], o.fds[0] = o.fds[0], nil
	o.mu.Unlock()
	for _, fd := range old {
		_ = unix.Close(fd)
	}
}
