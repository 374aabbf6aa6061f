package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
)

type header struct {
	Type string `json:"t"`
	N    int    `json:"n,omitempty"`
}

// stream is a Conn's two directions as separate buffers.
type stream struct {
	io.Reader
	io.Writer
	closed bool
}

func (s *stream) Close() error { s.closed = true; return nil }

func frame(n, h uint32, rest string) []byte {
	b := binary.BigEndian.AppendUint32(nil, n)
	b = binary.BigEndian.AppendUint32(b, h)
	return append(b, rest...)
}

func reader(b []byte) *Conn { return New(&stream{Reader: bytes.NewReader(b), Writer: io.Discard}) }

func TestWriteThenRead(t *testing.T) {
	var b bytes.Buffer
	c := New(&stream{Reader: &b, Writer: &b})
	payloads := [][]byte{nil, []byte("x"), bytes.Repeat([]byte{0xff, 0}, 100_000), []byte("after")}
	for i, p := range payloads {
		if err := c.Write(header{Type: "out", N: i}, p); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range payloads {
		var h header
		got, err := c.Read(&h)
		if err != nil {
			t.Fatal(err)
		}
		if h != (header{"out", i}) || !bytes.Equal(got, want) {
			t.Errorf("frame %d: header %+v, %d bytes; want %d bytes", i, h, len(got), len(want))
		}
	}
	if _, err := c.Read(&header{}); !errors.Is(err, io.EOF) {
		t.Errorf("read at the end: %v, want io.EOF itself", err)
	}
}

func TestReadRefuses(t *testing.T) {
	tests := []struct {
		name string
		in   []byte
		want error
	}{
		{"length over the bound", frame(MaxFrame+1, 2, "{}"), ErrTooLarge},
		{"length of 4 GiB", frame(0xffffffff, 2, "{}"), ErrTooLarge},
		{"header over its bound", frame(MaxFrame, MaxHeader+1, "{}"), ErrTooLarge},
		{"header longer than the frame", frame(6, 3, "{}"), ErrMalformed},
		{"header of 4 GiB", frame(6, 0xffffffff, "{}"), ErrMalformed},
		{"length below the header length's own", frame(3, 0, ""), ErrMalformed},
		{"length zero", frame(0, 0, ""), ErrMalformed},
		{"no header", frame(4, 0, ""), ErrMalformed},
		{"header is not JSON", frame(6, 2, "{]"), ErrMalformed},
		{"header of another type", frame(9, 5, `{"t"}`), ErrMalformed},
		{"cut in the lengths", frame(6, 2, "")[:5], io.ErrUnexpectedEOF},
		{"cut after the lengths", frame(6, 2, ""), io.ErrUnexpectedEOF},
		{"cut in the header", frame(6, 2, "{"), io.ErrUnexpectedEOF},
		{"cut in the payload", frame(9, 2, "{}ab"), io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := reader(tt.in).Read(&header{}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestReadAllocatesOnlyWhatItMay(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		_, _ = reader(frame(0x7fffffff, 0x7ffffff0, "")).Read(&header{})
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("1000 refused frames allocated %d bytes", got)
	}
}

func TestLimit(t *testing.T) {
	for name, in := range map[string][]byte{
		"header":  frame(4+20, 20, `{"t":"aaaaaaaaaaaa"}`),
		"payload": frame(4+2+9, 2, "{}123456789"),
	} {
		c := reader(in)
		c.Limit(16, 8)
		if _, err := c.Read(&header{}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s over the limit: %v", name, err)
		}
	}
	c := reader(frame(4+2+8, 2, "{}12345678"))
	c.Limit(16, 8)
	if p, err := c.Read(&header{}); err != nil || string(p) != "12345678" {
		t.Errorf("within the limit: %q, %v", p, err)
	}
}

func TestWriteRefusesLarge(t *testing.T) {
	var b bytes.Buffer
	c := New(&stream{Reader: &b, Writer: &b})
	if err := c.Write(header{Type: strings.Repeat("a", MaxHeader)}, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("header: %v", err)
	}
	if err := c.Write(header{}, make([]byte, MaxFrame)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("payload: %v", err)
	}
	if b.Len() != 0 {
		t.Fatalf("a refused frame left %d bytes", b.Len())
	}
	if err := c.Write(header{Type: "ok"}, nil); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

type shortWriter struct{ room int }

func (w *shortWriter) Write(p []byte) (int, error) {
	n := min(w.room, len(p))
	w.room -= n
	if n < len(p) {
		return n, errors.New("full")
	}
	return n, nil
}

func TestTornWriteEndsTheStream(t *testing.T) {
	w := &shortWriter{room: 20}
	c := New(&stream{Reader: strings.NewReader(""), Writer: w})
	if err := c.Write(header{Type: "out"}, make([]byte, 100)); err == nil {
		t.Fatal("short write passed")
	}
	w.room = 1 << 20
	if err := c.Write(header{Type: "out"}, nil); err == nil {
		t.Error("a frame followed half a frame")
	}
}

func TestConcurrentWrites(t *testing.T) {
	a, b := net.Pipe()
	from, to := New(a), New(b)
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				p := bytes.Repeat([]byte{byte(w)}, 1+i*37)
				if err := from.Write(header{fmt.Sprint(w), i}, p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { wg.Wait(); from.Close() }()
	next := map[string]int{}
	for {
		var h header
		p, err := to.Read(&h)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if next[h.Type] != h.N || len(p) != 1+h.N*37 || fmt.Sprint(p[0]) != h.Type {
			t.Fatalf("writer %s: frame %d of %d bytes, want number %d", h.Type, h.N, len(p), next[h.Type])
		}
		next[h.Type]++
	}
	for w := range writers {
		if next[fmt.Sprint(w)] != each {
			t.Errorf("writer %d: %d frames", w, next[fmt.Sprint(w)])
		}
	}
}

func TestHandshake(t *testing.T) {
	tests := []struct {
		name         string
		mine, theirs Hello
		want         int
		err          error
	}{
		{"same", Hello{Proto: 1, Min: 1}, Hello{Proto: 1, Min: 1}, 1, nil},
		{"peer newer", Hello{Proto: 2, Min: 1}, Hello{Proto: 5, Min: 2}, 2, nil},
		{"peer older", Hello{Proto: 5, Min: 3}, Hello{Proto: 4, Min: 1}, 4, nil},
		{"peer too new", Hello{Proto: 2, Min: 1}, Hello{Proto: 5, Min: 3}, 0, ErrVersion},
		{"peer too old", Hello{Proto: 5, Min: 4}, Hello{Proto: 3, Min: 1}, 0, ErrVersion},
		{"nonsense", Hello{Proto: 5, Min: 4}, Hello{Proto: 3, Min: 4}, 0, ErrMalformed},
		{"negative", Hello{Proto: 1, Min: 1}, Hello{Proto: 1, Min: -1}, 0, ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := net.Pipe()
			defer a.Close()
			go func() { _, _ = Handshake(New(b), tt.theirs) }()
			got, err := Handshake(New(a), tt.mine)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %v; want %d, %v", got, err, tt.want, tt.err)
			}
		})
	}
	if _, err := Handshake(reader(frame(4+11, 11, `{"t":"exec"}`)), Hello{Proto: 1, Min: 1}); err == nil {
		t.Error("another frame passed as hello")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(frame(6, 2, "{}"))
	f.Add(frame(9, 2, "{}abc"))
	f.Add(frame(MaxFrame+1, 2, "{}"))
	f.Add(frame(6, 0xffffffff, "{}"))
	f.Add(append(frame(6, 2, "{}"), frame(14, 9, `{"t":"x"}1`)...))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := reader(in)
		total := 0
		for {
			var h header
			p, err := c.Read(&h)
			if err != nil {
				break
			}
			total += prefix + len(p)
			if total > len(in) {
				t.Fatalf("%d bytes of frames from %d bytes", total, len(in))
			}
			var b bytes.Buffer
			again := New(&stream{Reader: &b, Writer: &b})
			if err := again.Write(h, p); err != nil {
				t.Fatalf("a frame that was read cannot be written: %v", err)
			}
			var h2 header
			p2, err := again.Read(&h2)
			if err != nil || h2 != h || !bytes.Equal(p, p2) {
				t.Fatalf("round trip: %+v %q, want %+v %q (%v)", h2, p2, h, p, err)
			}
		}
	})
}
