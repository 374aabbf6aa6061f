package unionfs

import (
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The kernel takes one backing file for an inode, and none beside opens that it
// caches: all opens of a file pass through, or none, until the last is closed. Only
// files of the upper pass through; a copy-up finds cached opens of the lower's file,
// so the copy is cached until they are gone.
//
// The first to pass is an opening for reading and writing, as of a database. To register a
// file takes longer than to write a small one, and those that are written only or read
// only are mostly small; they go along where others pass.

// backing is the state of one file of the upper; node.mu guards it.
type backing struct {
	id      int32
	passing int  // open handles that pass through
	cached  int  // that do not
	dirty   bool // written to through the kernel: cached pages are old

	writers atomic.Int32 // handles that pass through and write
}

// caching sets how the kernel caches an open file; n.mu is held.
func (f *fs) caching(h *handle, out *fuse.OpenOut) {
	if f.pass(h, out) {
		return
	}
	if h.n.inUpper.Load() {
		if !h.n.backing.dirty {
			out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
		}
		h.n.backing.dirty = false
	} else if p := f.anyParent(h.n); p != nil && p.watched.Load() {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	if !h.write {
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
	}
}

// pass makes h pass through the kernel if it can; n.mu is held.
func (f *fs) pass(h *handle, out *fuse.OpenOut) bool {
	b := &h.n.backing
	if f.opt.Backings == nil || f.bounded() || !h.n.inUpper.Load() || b.cached > 0 || b.passing == 0 && !h.both || h.write && hasSetID(h.fd) {
		b.cached++
		return false
	}
	if b.passing == 0 {
		fd, err := reopen(h.fd, unix.O_RDWR) // the kernel opens it again as each caller does
		if err != nil {
			b.cached++
			return false
		}
		defer unix.Close(fd)
		id, err := f.opt.Backings.Register(fd)
		if err != nil || id <= 0 {
			b.cached++
			return false
		}
		b.id = id
		f.stats.passed.Add(1)
	}
	b.passing++
	if h.write {
		b.writers.Add(1)
		b.dirty = true
	}
	h.passing = true
	out.OpenFlags |= fuse.FOPEN_PASSTHROUGH
	out.BackingID = b.id
	return true
}

// hasSetID reports whether a write must take set-id bits away, which the kernel
// leaves to the server (FUSE_HANDLE_KILLPRIV_V2) and so does not do on its own.
func hasSetID(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0
}

// endPass takes h out of the count; n.mu is held.
func (f *fs) endPass(h *handle) {
	b := &h.n.backing
	if !h.passing {
		b.cached--
		return
	}
	b.passing--
	if h.write {
		if b.writers.Add(-1) == 0 {
			f.invalidate(notice{node: h.n.id, attr: true})
		}
	}
	if b.passing == 0 {
		_ = f.opt.Backings.Unregister(b.id)
		b.id = 0
	}
}

// passing reports whether the kernel may write to n without telling.
func (n *node) passing() bool { return n.backing.writers.Load() > 0 }
