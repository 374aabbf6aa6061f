package unionfs

import (
	"errors"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// dirBytes is what a new directory is taken to need: one block.
const dirBytes = 4096

// usage is what the upper holds. It is kept with bounds only.
type usage struct {
	bytes, inodes atomic.Int64
}

func (f *fs) bounded() bool { return f.opt.MaxBytes > 0 || f.opt.MaxInodes > 0 }

// charge takes bytes and inodes, or gives them back; beyond a bound it takes
// nothing and returns ENOSPC.
func (f *fs) charge(bytes, inodes int64) error {
	if !f.bounded() {
		return nil
	}
	b, i := f.used.bytes.Add(bytes), f.used.inodes.Add(inodes)
	over := bytes > 0 && f.opt.MaxBytes > 0 && b > f.opt.MaxBytes ||
		inodes > 0 && f.opt.MaxInodes > 0 && i > f.opt.MaxInodes
	if !over {
		return nil
	}
	f.used.bytes.Add(-bytes)
	f.used.inodes.Add(-inodes)
	return unix.ENOSPC
}

// reserveWrite refuses a write that would not fit. What it may take is compared as
// a whole, so a request is done whole or not at all; what it took is known after
// it (recharge).
func (f *fs) reserveWrite(h *handle, off, size int64) error {
	if f.opt.MaxBytes <= 0 || f.used.bytes.Load()+size <= f.opt.MaxBytes {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(h.fd, &st); err != nil {
		return err
	}
	if off+size <= st.Size && st.Blocks*512 >= st.Size {
		return nil // replaces bytes
	}
	return unix.ENOSPC
}

// recharge counts what a file takes now.
func (f *fs) recharge(n *node, fd int) {
	if !f.bounded() {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		now := st.Blocks * 512
		f.used.bytes.Add(now - n.charged.Swap(now))
	}
}

// countNew notes what an object of the upper takes already; fs.tree is held.
func (f *fs) countNew(n *node, e *entry) {
	switch {
	case !f.bounded() || e.layer > 0:
	case n.kind == unix.S_IFDIR:
		n.charged.Store(dirBytes)
	default:
		n.charged.Store(int64(e.st.Blocks) * 512)
	}
}

// refund gives back what an object without names took, once nobody knows it any
// more; fs.tree is held.
func (f *fs) refund(n *node) {
	if f.bounded() && n.freed && n.inUpper.Load() {
		f.used.bytes.Add(-n.charged.Swap(0))
		f.used.inodes.Add(-1)
	}
}

// refundEntry is refund for what the kernel does not know.
func (f *fs) refundEntry(e *entry) {
	if f.bounded() && e.layer == 0 && e.st.Nlink <= 1 {
		f.used.bytes.Add(-int64(e.st.Blocks) * 512)
		f.used.inodes.Add(-1)
	}
}

// measure counts what the upper holds already, each inode once.
func (f *fs) measure() error {
	if !f.bounded() {
		return nil
	}
	fd, err := f.acquire(f.root, upperLayer)
	if err != nil {
		return err
	}
	defer f.root.release()
	return f.measureDir(fd, map[uint64]bool{})
}

func (f *fs) measureDir(dir int, seen map[uint64]bool) error {
	names, err := readDir(dir)
	if err != nil {
		return err
	}
	for _, de := range names {
		var st unix.Statx_t
		if err := statAt(dir, de.name, &st); err != nil || isWhiteout(&st) {
			continue
		}
		if kindOf(&st) != unix.S_IFDIR && st.Nlink > 1 {
			if seen[st.Ino] {
				continue
			}
			seen[st.Ino] = true
		}
		f.used.inodes.Add(1)
		if kindOf(&st) != unix.S_IFDIR {
			f.used.bytes.Add(int64(st.Blocks) * 512)
			continue
		}
		f.used.bytes.Add(dirBytes)
		fd, err := openAt(dir, de.name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		err = f.measureDir(fd, seen)
		_ = unix.Close(fd)
		if err != nil && !errors.Is(err, unix.EACCES) {
			return err
		}
	}
	return nil
}

// cutStatfs shows the bounds as the size of the file system.
func (f *fs) cutStatfs(out *fuse.StatfsOut) {
	if most := f.opt.MaxBytes; most > 0 && out.Bsize > 0 {
		unit := uint64(out.Frsize)
		if unit == 0 {
			unit = uint64(out.Bsize)
		}
		free := uint64(max(most-f.used.bytes.Load(), 0)) / unit
		out.Blocks = min(out.Blocks, uint64(most)/unit)
		out.Bfree, out.Bavail = min(out.Bfree, free), min(out.Bavail, free)
	}
	if most := f.opt.MaxInodes; most > 0 {
		free := uint64(max(most-f.used.inodes.Load(), 0))
		out.Files = min(out.Files, uint64(most))
		out.Ffree = min(out.Ffree, free)
	}
}
