package unionfs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// inodes makes numbers that are unique over the devices of all layers. The view
// has one device of its own.
type inodes struct {
	mu   sync.Mutex // guards the fields below
	devs map[uint64]uint64
	far  map[key]uint64 // numbers that do not fit
}

// inodeBits is how much of a number is the layer's own; above it is the device, in
// the order of appearance, that of the topmost lower first.
const inodeBits = 48

func (f *fs) mapInode(k key) uint64 {
	m := &f.inodes
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.devs[k.dev]
	if !ok {
		i = uint64(len(m.devs))
		m.devs[k.dev] = i
	}
	if k.ino < 1<<inodeBits && i < 1<<14 {
		return i<<inodeBits | k.ino
	}
	k.btime = 0
	n, ok := m.far[k]
	if !ok {
		n = 1<<63 | uint64(len(m.far))
		m.far[k] = n
	}
	return n
}

// number is the inode number of a new node: that of what it was copied from, of a
// directory that of its topmost lower part, else its own.
func (f *fs) number(e *entry) uint64 {
	switch {
	case e.ino != 0:
		return e.ino
	case kindOf(&e.st) == unix.S_IFDIR && e.low != (key{}):
		return f.mapInode(e.low)
	}
	return f.mapInode(e.key)
}

// layerDev is the device of a layer's root; a layer is one file system.
func (f *fs) layerDev(layer int) uint64 {
	if layer == upperLayer {
		return f.upperDev
	}
	return f.lowers[layer-1].dev
}
