package unionfs

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	headerIn  = int(unsafe.Sizeof(fuse.InHeader{}))
	headerOut = int(unsafe.Sizeof(fuse.OutHeader{}))
)

// direct answers the requests that there are most of by itself: go-fuse allocates for
// each. It returns the length of the answer, 0 for none; false: the request is another one,
// or not as it should be, and nothing was done.
func (w *worker) direct(request []byte) (n int, ok bool) {
	f := w.d.fs
	h, ok := taken[fuse.InHeader](request)
	if !ok || h.TotalExtlen != 0 {
		return 0, false
	}
	switch h.Opcode {
	case opLookup:
		name, rest, found := bytes.Cut(request[headerIn:], []byte{0})
		if !found || len(rest) > 0 {
			return 0, false
		}
		out := place[fuse.EntryOut](w)
		return w.reply(f.Lookup(nil, h, string(name), out), unsafe.Sizeof(*out)), true
	case opGetAttr:
		in, ok := taken[fuse.GetAttrIn](request)
		if !ok {
			return 0, false
		}
		out := place[fuse.AttrOut](w)
		return w.reply(f.GetAttr(nil, in, out), unsafe.Sizeof(*out)), true
	case opForget:
		in, ok := taken[fuse.ForgetIn](request)
		if ok {
			f.Forget(h.NodeId, in.Nlookup)
		}
		return 0, ok
	case opRead:
		in, ok := taken[fuse.ReadIn](request)
		if !ok || int(in.Size) > len(w.out)-headerOut {
			return 0, false
		}
		n, s := f.read(in, w.out[headerOut:headerOut+int(in.Size)])
		return w.reply(s, uintptr(n)), true
	case opWrite:
		in, ok := taken[fuse.WriteIn](request)
		if !ok || int(in.Size) != len(request)-int(unsafe.Sizeof(*in)) {
			return 0, false
		}
		out := place[fuse.WriteOut](w)
		n, s := f.Write(nil, in, request[unsafe.Sizeof(*in):])
		out.Size = n
		return w.reply(s, unsafe.Sizeof(*out)), true
	}
	return 0, false
}

// taken is what a request begins with.
func taken[T any](request []byte) (*T, bool) {
	if len(request) < int(unsafe.Sizeof(*new(T))) {
		return nil, false
	}
	return (*T)(unsafe.Pointer(unsafe.SliceData(request))), true
}

// place returns an empty T in the answer, behind its header.
func place[T any](w *worker) *T {
	out := (*T)(unsafe.Pointer(&w.out[headerOut]))
	*out = *new(T)
	return out
}

// reply writes the header of an answer with n bytes behind it, or of an error, and returns
// the length of all.
func (w *worker) reply(s fuse.Status, n uintptr) int {
	if !s.Ok() {
		n = 0
	}
	size := headerOut + int(n)
	binary.NativeEndian.PutUint32(w.out, uint32(size))
	binary.NativeEndian.PutUint32(w.out[4:], uint32(-s))
	binary.NativeEndian.PutUint64(w.out[8:], w.unique())
	return size
}
