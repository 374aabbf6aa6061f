package unionfs

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Of linux/fuse.h.
const (
	opLookup        = 1
	opForget        = 2
	opGetAttr       = 3
	opOpen          = 14
	opRead          = 15
	opWrite         = 16
	opFsync         = 20
	opOpenDir       = 27
	opFsyncDir      = 30
	opInterrupt     = 36
	opFallocate     = 43
	opCopyFileRange = 47

	notifyInode = 2
	notifyEntry = 3
)

// worker has the buffers for one request and its answer.
type worker struct {
	d       *device
	in, out []byte
	ins     [1][]byte
	outs    [1][]byte
}

// headerRoom is more than any header with its arguments takes.
const headerRoom = 4096

func newWorker(d *device) *worker {
	// What is written begins on a page: the kernel copies fewer.
	const data = unsafe.Sizeof(fuse.WriteIn{})
	page := uintptr(unix.Getpagesize())
	in := make([]byte, uintptr(maxWrite+headerRoom)+page)
	off := -(uintptr(unsafe.Pointer(unsafe.SliceData(in))) + data) & (page - 1)
	return &worker{d: d, in: in[off:], out: make([]byte, maxWrite+headerRoom)}
}

// read waits for a request and returns its length.
func (w *worker) read() (int, error) {
	for {
		n, err := unix.Read(w.d.fd, w.in)
		switch err {
		case unix.EINTR, unix.ENOENT: // a signal; a request that was given up
			continue
		case nil:
			if n < int(unsafe.Sizeof(fuse.InHeader{})) {
				return 0, unix.EIO
			}
		}
		return n, err
	}
}

// answer has the request of n bytes answered. A panic costs that request.
func (w *worker) answer(n int) error {
	defer func() {
		if recover() != nil {
			w.d.panicked()
			_, _ = unix.Write(w.d.fd, header(-int32(unix.EIO), w.unique()))
		}
	}()
	size, done := w.direct(w.in[:n])
	if !done {
		size = w.hand(w.in[:n])
	}
	if size == 0 {
		return nil // no answer is expected
	}
	_, err := unix.Write(w.d.fd, w.out[:size])
	return err
}

// hand gives a request to go-fuse and returns the length of the answer.
func (w *worker) hand(request []byte) int {
	w.ins[0], w.outs[0] = request, w.out
	n, status := w.d.proto.HandleRequest(w.ins[:], w.outs[:])
	switch {
	case !status.Ok(): // of a request that go-fuse does not understand
		return w.reply(status, 0)
	case opcode(request) == opInterrupt && n > 0: // of a request that it does not know
		time.Sleep(time.Millisecond) // the kernel asks again until that is answered
	}
	return n
}

// unique is the number of the request that was read last.
func (w *worker) unique() uint64 { return binary.NativeEndian.Uint64(w.in[8:]) }

func opcode(request []byte) uint32 { return binary.NativeEndian.Uint32(request[4:]) }

// header returns a struct fuse_out_header of a message that has nothing else yet.
func header(code int32, unique uint64) []byte {
	return seal(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint32(make([]byte, 4, 48), uint32(code)), unique))
}

// seal writes the length of a message into its header.
func seal(message []byte) []byte {
	binary.NativeEndian.PutUint32(message, uint32(len(message)))
	return message
}

// forgetInode makes the kernel forget the attributes of a node, and its pages or listing
// from off on; none of them if off is negative (FUSE_NOTIFY_INVAL_INODE).
func forgetInode(node uint64, off int64) []byte {
	m := header(notifyInode, 0)
	m = binary.NativeEndian.AppendUint64(m, node)
	m = binary.NativeEndian.AppendUint64(m, uint64(off))
	return seal(binary.NativeEndian.AppendUint64(m, 0))
}

// forgetEntry makes the kernel forget a name of a directory (FUSE_NOTIFY_INVAL_ENTRY).
func forgetEntry(dir uint64, name string) []byte {
	m := header(notifyEntry, 0)
	m = binary.NativeEndian.AppendUint64(m, dir)
	m = binary.NativeEndian.AppendUint32(m, uint32(len(name)))
	m = binary.NativeEndian.AppendUint32(m, 0)
	return seal(append(append(m, name...), 0))
}
