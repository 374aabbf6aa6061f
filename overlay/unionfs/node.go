package unionfs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// link is one name of a node.
type link struct {
	parent *node
	name   string
}

// node is one object of the view, from its first LOOKUP to its last FORGET.
type node struct {
	id   uint64
	ino  uint64 // as the view shows it; constant
	kind uint32 // S_IFMT bits; constant
	// fixed: a mountpoint, or below one, which stays as it is; constant.
	fixed bool

	// inUpper says that the object, or of a directory its topmost part, lies in the
	// upper. It never becomes false again.
	inUpper atomic.Bool
	// moving is odd while a name of the node is being changed, and different
	// afterwards.
	moving atomic.Uint32

	// Guarded by fs.tree.
	links   []link
	lookups uint64
	kids    int   // nodes with a link whose parent this is
	gone    bool  // dropped from the tables
	freed   bool  // the object has no name in the upper either
	up, low key   // identities in the upper and in a lower; zero none
	layer   int   // of a file that is not in the upper: which lower
	lost    int32 // names of the lower's file that the view no longer has
	extra   int32 // names of a copied file that only the lower has
	pin     int   // O_PATH descriptor of an object without names, or -1

	mu sync.RWMutex // guards the fields below; of a directory also its entries on disk
	// handles are the open descriptors of a file.
	handles []*handle
	backing backing
	dead    bool // a directory that was removed

	opens   atomic.Int32 // handles, and requests that must find the node again
	charged atomic.Int64 // bytes of it that count, with bounds only
	// masked is set when a file turned out to have a masked name elsewhere.
	masked atomic.Bool
	noted  atomic.Uint32 // 1 read, 2 write: in the journal already

	*dir // of a directory
}

// dir is what only directories have.
type dir struct {
	lower  uint32 // bit i: lower i has a part; guarded by fs.tree
	opaque bool   // guarded by fs.tree
	states state  // of the masks, constant while the directory keeps its name

	fdmu   sync.Mutex // guards the fields below
	fds    []int      // O_PATH descriptors: the upper, then the lowers; -1 not open
	refs   int
	used   bool // since the last turn of the clock
	inRing bool

	list        atomic.Pointer[listing]
	watched     atomic.Bool // every part in a lower is watched
	unwatchable atomic.Bool // and cannot be
	wds         []int32     // guarded by watcher.mu
}

// table finds nodes. It is guarded by fs.tree.
type table struct {
	byID  map[uint64]*node
	byKey map[key]*node
	next  uint64
}

// rootID is the node id of the root, set by the protocol.
const rootID = 1

// node returns the node with an id that the kernel sent.
func (f *fs) node(id uint64) (*node, error) {
	f.tree.RLock()
	n := f.byID[id]
	f.tree.RUnlock()
	if n == nil {
		return nil, unix.ESTALE
	}
	return n, nil
}

// dirNode is node for requests whose node must be a directory.
func (f *fs) dirNode(id uint64) (*node, error) {
	n, err := f.node(id)
	if err == nil && n.dir == nil {
		return nil, unix.ENOTDIR
	}
	return n, err
}

// intern returns the node of what lookup found at name, makes it if it is new, and
// counts a reference, which is the kernel's or given back with Forget.
func (f *fs) intern(parent *node, name string, e *entry) *node {
	f.tree.Lock()
	defer f.tree.Unlock()
	n := f.find(e)
	states := state(nil)
	if kindOf(&e.st) == unix.S_IFDIR {
		states = f.opt.Masks.step(parent.states, name)
	}
	if n != nil && n.dir != nil && !n.states.equal(states) {
		f.disown(n)
		n = nil
	}
	if n == nil {
		n = f.newNode(e)
		n.fixed = parent.fixed || e.layer == f.pins() && f.opt.Masks.holds(parent.states, name)
		if n.dir != nil {
			n.states = states
		}
	}
	if n.dir != nil {
		f.refresh(n, e)
		if len(n.links) == 1 && n.links[0] != (link{parent, name}) {
			f.unlinkNode(n, n.links[0])
		}
	}
	f.linkNode(n, link{parent, name})
	n.lookups++
	return n
}

// find returns the node of what lookup found, or nil; fs.tree is held.
func (f *fs) find(e *entry) *node {
	n := f.byKey[e.key]
	if n == nil && e.low != (key{}) {
		n = f.byKey[e.low]
	}
	if n == nil || n.kind != kindOf(&e.st) || e.layer == 0 && !n.inUpper.Load() {
		return nil // an object of the upper is never the lower's
	}
	return n
}

// disown makes the next lookup of a directory find another node: one that the host has
// moved to where other names are hidden. The kernel has entries of it that those masks
// have not seen.
func (f *fs) disown(n *node) {
	for _, k := range [...]key{n.up, n.low} {
		if f.byKey[k] == n {
			delete(f.byKey, k)
		}
	}
}

func (f *fs) newNode(e *entry) *node {
	f.next++
	n := &node{id: f.next, kind: kindOf(&e.st), pin: -1, layer: e.layer - 1}
	n.ino = f.number(e)
	n.low = e.low
	if e.layer == 0 {
		n.inUpper.Store(true)
		n.up = e.key
	}
	if n.kind == unix.S_IFDIR {
		n.dir = &dir{fds: f.noFDs()}
	} else if e.layer > 0 && f.isHidden(e.key) {
		n.masked.Store(true)
	}
	f.countNew(n, e)
	f.byID[n.id] = n
	f.setKeys(n)
	return n
}

func (f *fs) setKeys(n *node) {
	for _, k := range [...]key{n.up, n.low} {
		if k != (key{}) && (f.byKey[k] == nil || k == n.up) {
			f.byKey[k] = n
		}
	}
}

// refresh takes over what a new look at a directory has shown.
func (f *fs) refresh(n *node, e *entry) {
	if n.lower == e.lower && n.opaque == e.opaque && n.low == e.low {
		return
	}
	if n.low != e.low {
		if f.byKey[n.low] == n && n.low != n.up {
			delete(f.byKey, n.low)
		}
		n.low = e.low
		f.setKeys(n)
	}
	n.lower, n.opaque = e.lower, e.opaque
	f.closeLowers(n)
	f.unwatch(n)
	n.unwatchable.Store(false)
	n.changed()
}

// linkNode adds a name; fs.tree is held.
func (f *fs) linkNode(n *node, l link) {
	for _, have := range n.links {
		if have == l {
			return
		}
	}
	n.links = append(n.links, l)
	l.parent.kids++
}

// unlinkNode takes a name away; fs.tree is held.
func (f *fs) unlinkNode(n *node, l link) {
	for i, have := range n.links {
		if have == l {
			n.links = append(n.links[:i:i], n.links[i+1:]...)
			l.parent.kids--
			f.dropLocked(l.parent)
			return
		}
	}
}

// child returns the node of what lookup found, if the kernel knows it.
func (f *fs) child(e *entry) *node {
	f.tree.RLock()
	defer f.tree.RUnlock()
	return f.find(e)
}

// Forget takes references of the kernel back.
func (f *fs) Forget(id, count uint64) {
	f.tree.Lock()
	defer f.tree.Unlock()
	n := f.byID[id]
	if n == nil || id == rootID {
		return
	}
	n.lookups -= min(count, n.lookups)
	f.dropLocked(n)
}

// drop forgets n if nobody knows it any more.
func (f *fs) drop(n *node) {
	f.tree.Lock()
	defer f.tree.Unlock()
	f.dropLocked(n)
}

func (f *fs) dropLocked(n *node) {
	if n.id == rootID || n.gone || n.lookups > 0 || n.kids > 0 || n.opens.Load() > 0 {
		return
	}
	n.gone = true
	delete(f.byID, n.id)
	for _, k := range [...]key{n.up, n.low} {
		if f.byKey[k] == n {
			delete(f.byKey, k)
		}
	}
	f.discard(n)
	for _, l := range n.links {
		l.parent.kids--
		f.dropLocked(l.parent)
	}
}

// discard closes what only n holds.
func (f *fs) discard(n *node) {
	if n.dir != nil {
		f.unwatch(n)
		f.closeFDs(n)
	}
	if n.pin >= 0 {
		_ = unix.Close(n.pin)
		n.pin = -1
	}
	f.refund(n)
}
