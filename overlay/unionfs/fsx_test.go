package unionfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fsxMost bounds the file of TestOneFile.
const fsxMost = 300_000

// One file of the lower is read, written, cut, mapped and punched at random, by two
// descriptors, one of them older than the copy-up. What it holds is at every moment what
// the same operations make of a slice of bytes; after a remount as well.
func TestOneFile(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	for name, st := range map[string]stage{"cached": {}, "passthrough": {Passthrough: true}, "ask": {Ask: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			v := newView(t, st, `head -c 200000 /dev/zero | tr '\0' b >f`)
			x := &fsx{t: t, path: v.P + "/f", rnd: rand.New(rand.NewPCG(seed, 2)), want: bytes.Repeat([]byte("b"), 200_000)}
			long := 2 * time.Second
			if minutes() > 0 {
				long = time.Duration(minutes()) * time.Minute
			}
			x.run(time.Now().Add(long))
			v.remount()
			if got, err := os.ReadFile(x.path); err != nil || !bytes.Equal(got, x.want) {
				t.Errorf("after a remount: %d bytes, %v, want %d", len(got), err, len(x.want))
			}
		})
	}
}

// fsx is one run.
type fsx struct {
	t    *testing.T
	path string
	rnd  *rand.Rand
	want []byte
	fds  [2]int // for reading only and opened first; for both
	log  []string
}

func (x *fsx) run(end time.Time) {
	for i, flags := range []int{unix.O_RDONLY, unix.O_RDWR} {
		fd, err := unix.Open(x.path, flags, 0)
		x.check("open", err)
		defer func() { _ = unix.Close(fd) }()
		x.fds[i] = fd
	}
	ops := []func(){x.write, x.write, x.read, x.read, x.cut, x.mapped, x.mapped, x.punch, x.grow, x.copyRange, x.sync, x.size}
	for n := 0; time.Now().Before(end) && !x.t.Failed(); n++ {
		ops[x.rnd.IntN(len(ops))]()
		if n%200 == 0 {
			x.compare("whole", x.fds[n/200%2], 0, len(x.want)+1)
		}
	}
}

func (x *fsx) check(op string, err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("%s: %v\n%v", op, err, x.log)
	}
}

// note keeps the last operations for a failure.
func (x *fsx) note(op string, args ...any) {
	x.log = append(x.log[max(0, len(x.log)-20):], fmt.Sprint(append([]any{op, " "}, args...)...))
}

// span is a place in the file, and a length that may go beyond the end.
func (x *fsx) span() (at, n int) {
	at = x.rnd.IntN(len(x.want) + 1)
	return at, min(1+x.rnd.IntN(20_000), fsxMost-at)
}

// put does to the slice what a write does to a file.
func (x *fsx) put(at int, b []byte) {
	if grown := at + len(b); grown > len(x.want) {
		x.want = append(x.want, make([]byte, grown-len(x.want))...)
	}
	copy(x.want[at:], b)
}

func (x *fsx) data(n int) []byte { return bytes.Repeat([]byte{byte('A' + x.rnd.IntN(26))}, n) }

func (x *fsx) write() {
	at, n := x.span()
	if n <= 0 {
		return
	}
	b := x.data(n)
	x.note("write", at, n)
	got, err := unix.Pwrite(x.fds[1], b, int64(at))
	if err == nil && got != n {
		err = fmt.Errorf("%d of %d bytes", got, n)
	}
	x.check("write", err)
	x.put(at, b)
}

func (x *fsx) read() {
	at, n := x.span()
	x.compare("read", x.fds[x.rnd.IntN(2)], at, max(n, 0))
}

func (x *fsx) compare(op string, fd, at, n int) {
	x.t.Helper()
	b := make([]byte, n)
	got, err := unix.Pread(fd, b, int64(at))
	x.check(op, err)
	want := x.want[at:min(at+n, len(x.want))]
	if !bytes.Equal(b[:got], want) {
		x.t.Fatalf("%s at %d: %d bytes that differ at %d, want %d\n%v", op, at, got, firstDifference(b[:got], want), len(want), x.log)
	}
}

// firstDifference is the first place where two slices are not the same.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func (x *fsx) cut() {
	n := x.rnd.IntN(fsxMost)
	x.note("truncate", n)
	if x.rnd.IntN(2) == 0 {
		x.check("ftruncate", unix.Ftruncate(x.fds[1], int64(n)))
	} else {
		x.check("truncate", unix.Truncate(x.path, int64(n)))
	}
	if n < len(x.want) {
		x.want = x.want[:n:n]
	}
	x.put(n, nil)
}

// mapped reads or writes through a shared mapping of some pages.
func (x *fsx) mapped() {
	page := os.Getpagesize()
	pages := len(x.want) / page
	if pages == 0 {
		return
	}
	first := x.rnd.IntN(pages)
	n := min(pages-first, 1+x.rnd.IntN(4)) * page
	m, err := unix.Mmap(x.fds[1], int64(first*page), n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	x.check("mmap", err)
	defer func() { x.check("munmap", unix.Munmap(m)) }()
	at := x.rnd.IntN(n)
	x.note("map", first*page, n, at)
	if !bytes.Equal(m, x.want[first*page:first*page+n]) {
		x.t.Fatalf("mapped at %d: differs at %d\n%v", first*page, firstDifference(m, x.want[first*page:]), x.log)
	}
	if x.rnd.IntN(2) == 0 {
		b := x.data(1 + x.rnd.IntN(n-at))
		copy(m[at:], b)
		x.put(first*page+at, b)
		if x.rnd.IntN(2) == 0 {
			x.check("msync", unix.Msync(m, unix.MS_SYNC))
		}
	}
}

func (x *fsx) punch() {
	at, n := x.span()
	n = min(n, len(x.want)-at)
	if n <= 0 {
		return
	}
	x.note("punch", at, n)
	x.check("punch", unix.Fallocate(x.fds[1], unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at), int64(n)))
	x.put(at, make([]byte, n))
}

func (x *fsx) grow() {
	at, n := x.span()
	if n <= 0 {
		return
	}
	x.note("fallocate", at, n)
	x.check("fallocate", unix.Fallocate(x.fds[1], 0, int64(at), int64(n)))
	if at+n > len(x.want) {
		x.put(at+n, nil)
	}
}

// copyRange copies within the file, between places that do not overlap.
func (x *fsx) copyRange() {
	half := len(x.want) / 2
	if half < 2 {
		return
	}
	from, to, n := x.rnd.IntN(half), half+x.rnd.IntN(half), 1+x.rnd.IntN(8000)
	n = min(n, half-from)
	x.note("copy", from, to, n)
	in, out := int64(from), int64(to)
	got, err := unix.CopyFileRange(x.fds[1], &in, x.fds[1], &out, n, 0)
	x.check("copy_file_range", err)
	x.put(to, bytes.Clone(x.want[from:from+got]))
}

func (x *fsx) sync() { x.check("fsync", unix.Fsync(x.fds[1])) }

func (x *fsx) size() {
	var st unix.Stat_t
	x.check("fstat", unix.Fstat(x.fds[x.rnd.IntN(2)], &st))
	if st.Size != int64(len(x.want)) {
		x.t.Fatalf("the size is %d, want %d\n%v", st.Size, len(x.want), x.log)
	}
}
