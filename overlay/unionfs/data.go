package unionfs

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Read answers read(2) and page faults.
func (f *fs) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n, s := f.read(in, buf)
	return fuse.ReadResultData(buf[:n]), s
}

// read goes on after a signal to the server, which is none to the caller.
func (f *fs) read(in *fuse.ReadIn, into []byte) (int, fuse.Status) {
	h, err := f.handles.find(in.Fh)
	if err != nil {
		return 0, status(err)
	}
	if h.n.masked.Load() {
		return 0, fuse.EACCES
	}
	for {
		n, err := unix.Pread(h.fd, into, int64(in.Offset))
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), status(err)
		}
	}
}

// Write answers write(2) and written-back pages.
func (f *fs) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	h, err := f.writeHandle(in.Fh)
	if err != nil {
		return 0, status(err)
	}
	off := int64(in.Offset)
	if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
		killPriv(h.fd)
	}
	if err := f.reserveWrite(h, off, int64(len(data))); err != nil {
		return 0, status(err)
	}
	done := 0
	for done < len(data) {
		n, err := unix.Pwrite(h.fd, data[done:], off+int64(done))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if done > 0 {
				break
			}
			f.recharge(h.n, h.fd)
			return 0, status(err)
		}
		done += n
	}
	f.recharge(h.n, h.fd)
	return uint32(done), fuse.OK
}

func (f *fs) writeHandle(fh uint64) (*handle, error) {
	h, err := f.handles.find(fh)
	if err != nil {
		return nil, err
	}
	if !h.write || !h.n.inUpper.Load() {
		return nil, unix.EBADF
	}
	return h, nil
}

// killPriv takes the set-id bits from a file that somebody without CAP_FSETID
// writes to (FUSE_HANDLE_KILLPRIV_V2), and its capabilities.
func killPriv(fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	drop := st.Mode & unix.S_ISUID
	if st.Mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID|unix.S_IXGRP {
		drop |= unix.S_ISGID
	}
	if drop != 0 {
		_ = unix.Fchmod(fd, st.Mode&0o7777&^drop)
	}
	if _, err := unix.Fgetxattr(fd, "security.capability", nil); err == nil {
		_ = unix.Fremovexattr(fd, "security.capability")
	}
}

// Flush has nothing to do: every write is in the upper when it is answered. The
// kernel asks once, writes back mapped pages itself, and does not ask again.
func (f *fs) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// Fsync writes a file to disk.
func (f *fs) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h, err := f.handles.find(in.Fh)
	if err != nil {
		return status(err)
	}
	if !h.n.inUpper.Load() {
		return fuse.OK
	}
	if in.FsyncFlags&1 != 0 {
		return status(unix.Fdatasync(h.fd))
	}
	return status(unix.Fsync(h.fd))
}

// FsyncDir writes a directory of the upper to disk.
func (f *fs) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	n, err := f.dirNode(in.NodeId)
	if err != nil {
		return status(err)
	}
	if !n.inUpper.Load() {
		return fuse.OK
	}
	fd, err := f.acquire(n, upperLayer)
	if err != nil {
		return status(err)
	}
	defer n.release()
	own, err := f.openDir(fd, true)
	if err != nil {
		return status(err)
	}
	defer unix.Close(own)
	return status(unix.Fsync(own))
}

// Lseek finds data and holes.
func (f *fs) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h, err := f.handles.find(in.Fh)
	if err != nil {
		return status(err)
	}
	off, err := unix.Seek(h.fd, int64(in.Offset), int(in.Whence))
	if err != nil {
		return status(err)
	}
	out.Offset = uint64(off)
	return fuse.OK
}

// Fallocate answers fallocate(2).
func (f *fs) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	h, err := f.writeHandle(in.Fh)
	if err != nil {
		return status(err)
	}
	off, size := int64(in.Offset), int64(in.Length)
	if in.Mode&unix.FALLOC_FL_PUNCH_HOLE == 0 {
		if err := f.reserveWrite(h, off, size); err != nil {
			return status(err)
		}
	}
	err = unix.Fallocate(h.fd, in.Mode, off, size)
	f.recharge(h.n, h.fd)
	return status(err)
}

// CopyFileRange copies within the view, by reference where the upper can.
func (f *fs) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	from, err := f.handles.find(in.FhIn)
	if err != nil {
		return 0, status(err)
	}
	to, err := f.writeHandle(in.FhOut)
	if err != nil {
		return 0, status(err)
	}
	if from.n.masked.Load() {
		return 0, fuse.EACCES
	}
	offIn, offOut := int64(in.OffIn), int64(in.OffOut)
	size := min(in.Len, copyStep)
	if err := f.reserveWrite(to, offOut, int64(size)); err != nil {
		return 0, status(err)
	}
	n, err := unix.CopyFileRange(from.fd, &offIn, to.fd, &offOut, int(size), int(in.Flags))
	f.recharge(to.n, to.fd)
	if err != nil {
		return 0, status(err)
	}
	return uint32(n), fuse.OK
}
