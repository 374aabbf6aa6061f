package unionfs

import (
	"context"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yes answers every question with yes.
type yes struct{}

func (yes) Ask(context.Context, Question) error { return nil }

// direct registers backing files itself, which root may.
type direct struct{ dev *os.File }

// backingMap is struct fuse_backing_map (linux/fuse.h).
type backingMap struct {
	fd      int32
	flags   uint32
	padding uint64
}

const (
	backingOpen  = 0x4010e501 // FUSE_DEV_IOC_BACKING_OPEN
	backingClose = 0x4004e502 // FUSE_DEV_IOC_BACKING_CLOSE
)

func (d direct) Register(fd int) (int32, error) {
	m := backingMap{fd: int32(fd)}
	id, _, errno := unix.Syscall(unix.SYS_IOCTL, d.dev.Fd(), backingOpen, uintptr(unsafe.Pointer(&m)))
	if errno != 0 {
		return 0, errno
	}
	return int32(id), nil
}

func (d direct) Unregister(id int32) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, d.dev.Fd(), backingClose, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return errno
	}
	return nil
}
