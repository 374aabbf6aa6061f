package unionfs

import (
	"encoding/binary"
	"os"
	"os/exec"
	"testing"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Reading and writing allocate nothing.
func TestReadsAndWritesAllocateNothing(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	dir, s := hooked(t, Options{}, `:`)
	if err := sh(dir, `echo 0123456789 >view/file`); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(dir+"/upper/file", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := newWorker(s.fs.device)
	n, ok := w.direct(request(opLookup, rootID, []byte("file\x00")))
	if !ok || n != headerOut+int(unsafe.Sizeof(fuse.EntryOut{})) {
		t.Fatalf("LOOKUP: %d bytes, %v", n, ok)
	}
	node, err := s.fs.node((*fuse.EntryOut)(unsafe.Pointer(&w.out[headerOut])).NodeId)
	if err != nil {
		t.Fatal(err)
	}
	fh := s.fs.handles.add(newHandle(node, int(file.Fd()), os.O_RDWR))
	read := fuse.ReadIn{Fh: fh, Offset: 2, Size: 4096}
	write := fuse.WriteIn{Fh: fh, Offset: 4, Size: 2}
	for _, c := range []struct {
		name string
		op   uint32
		arg  []byte
		want string // the answer
	}{
		{"READ", opRead, argument(&read), "23456789\n"},
		{"WRITE", opWrite, append(argument(&write), "ab"...), "\x02\x00\x00\x00\x00\x00\x00\x00"},
		{"READ again", opRead, argument(&read), "23ab6789\n"},
	} {
		in := request(c.op, node.id, c.arg)
		if n, ok := w.direct(in); !ok || string(w.out[headerOut:n]) != c.want {
			t.Errorf("%s: %v, %q, want %q", c.name, ok, w.out[headerOut:n], c.want)
		}
		if got := testing.AllocsPerRun(100, func() { w.direct(in) }); got != 0 {
			t.Errorf("%s allocates %v times", c.name, got)
		}
	}
}

// A signal to who waits for an answer costs no more than a request now and then.
func TestSignalUnderADirectRequest(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	dir, s := hooked(t, Options{}, `:`)
	s.fs.root.mu.Lock() // LOOKUP waits
	defer s.fs.root.mu.Unlock()
	before := s.fs.device.state().taken
	stat := exec.Command("stat", dir+"/view/file")
	if err := stat.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the name is looked up", func() bool { return s.fs.device.state().taken > before })
	before = s.fs.device.state().taken
	if err := stat.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kernel tells", func() bool { return s.fs.device.state().taken > before })
	time.Sleep(50 * time.Millisecond)
	if got := s.fs.device.state().taken - before; got > 100 {
		t.Errorf("%d requests in 50 ms", got)
	}
	go func() { _ = stat.Wait() }()
}

// A request that is not as the kernel makes them is left to go-fuse, whatever it says.
func TestDirectLeavesWhatItDoesNotKnow(t *testing.T) {
	w := newWorker(&device{})
	huge := fuse.ReadIn{Size: 1 << 31}
	long := fuse.WriteIn{Size: 3}
	for name, in := range map[string][]byte{
		"nothing":               {},
		"half a header":         make([]byte, headerIn-1),
		"a name without end":    request(opLookup, rootID, []byte("file")),
		"two names":             request(opLookup, rootID, []byte("a\x00b\x00")),
		"GETATTR cut":           request(opGetAttr, rootID, make([]byte, 8)),
		"FORGET cut":            request(opForget, rootID, nil),
		"READ cut":              request(opRead, rootID, make([]byte, 8)),
		"READ of too much":      request(opRead, rootID, argument(&huge)),
		"WRITE cut":             request(opWrite, rootID, make([]byte, 8)),
		"WRITE of less than it": request(opWrite, rootID, append(argument(&long), "ab"...)),
		"OPEN":                  request(opOpen, rootID, make([]byte, 64)),
	} {
		if n, ok := w.direct(in); ok || n != 0 {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

// request makes a request of a node.
func request(op uint32, node uint64, rest []byte) []byte {
	in := make([]byte, headerIn, headerIn+len(rest))
	binary.NativeEndian.PutUint32(in, uint32(cap(in)))
	binary.NativeEndian.PutUint32(in[4:], op)
	binary.NativeEndian.PutUint64(in[16:], node)
	return append(in, rest...)
}

// argument is what follows the header that in begins with.
func argument[T any](in *T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(in)), unsafe.Sizeof(*in))[headerIn:]...)
}
