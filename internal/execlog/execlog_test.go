package execlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) { testbox.Main(m) }

func open(t *testing.T, dir string, opt Options) *Log {
	t.Helper()
	l, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func create(t *testing.T, l *Log, argv ...string) *Stream {
	t.Helper()
	s, err := l.Create(argv, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read takes everything from an offset on: the bytes of each channel, and what was lost.
func read(t *testing.T, s *Stream, from int64) (out [3][]byte, lost int64) {
	t.Helper()
	r := s.Reader(from)
	defer r.Close()
	at := from
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		c, err := r.Next(ctx)
		cancel()
		if errors.Is(err, io.EOF) {
			return out, lost
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Offset != at {
			t.Fatalf("a piece at %d, want %d", c.Offset, at)
		}
		out[c.FD] = append(out[c.FD], c.Data...)
		lost += c.Lost
		at += int64(len(c.Data)) + c.Lost
	}
}

func files(t *testing.T, dir string) (n int, size int64) {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.out")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	return len(names), size
}

// pattern is output in which every byte tells its offset.
func pattern(from, n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		at := from + int64(i)
		b[i] = byte(at ^ at>>8 ^ at>>16)
	}
	return b
}

func TestEveryOffsetReadsTheRest(t *testing.T) {
	l := open(t, t.TempDir(), Options{Segment: 500})
	s := create(t, l, "x")
	var at int64
	for i := range 60 {
		n := int64(i * 7 % 90)
		s.Append(1, pattern(at, n))
		at += n
	}
	s.End(0, 0, "")
	for from := int64(0); from <= at; from++ {
		out, lost := read(t, s, from)
		if lost != 0 || !bytes.Equal(out[1], pattern(from, at-from)) {
			t.Fatalf("from %d: %d bytes, %d lost", from, len(out[1]), lost)
		}
	}
}

func TestChannelsKeepTheirOrder(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	s := create(t, l, "x")
	for i := range 1000 {
		s.Append(byte(1+i%2), fmt.Appendf(nil, "%d ", i))
	}
	s.Append(2, bytes.Repeat([]byte("z"), 200_000)) // over what is read at once
	s.End(0, 0, "")
	r := s.Reader(0)
	defer r.Close()
	var all []byte
	for {
		c, err := r.Next(t.Context())
		if err != nil {
			break
		}
		if len(c.Data) > readSize {
			t.Fatalf("a piece of %d bytes", len(c.Data))
		}
		all = append(all, c.Data...)
	}
	want := ""
	for i := range 1000 {
		want += fmt.Sprintf("%d ", i)
	}
	if string(all) != want+strings.Repeat("z", 200_000) {
		t.Errorf("got %d bytes in another order", len(all))
	}
}

func TestReadersFollowWhatComes(t *testing.T) {
	l := open(t, t.TempDir(), Options{Segment: 64 << 10, Max: 256 << 10})
	const total = 3 << 20
	s := create(t, l, "x")
	var wg sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(4)
	for range 4 {
		wg.Go(func() {
			r := s.Reader(0)
			defer r.Close()
			begun.Done()
			var at int64
			for {
				c, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || c.Lost != 0 || !bytes.Equal(c.Data, pattern(at, int64(len(c.Data)))) {
					t.Errorf("at %d: %d bytes, %d lost, %v", at, len(c.Data), c.Lost, err)
					return
				}
				at += int64(len(c.Data))
			}
			if at != total {
				t.Errorf("%d bytes, want %d", at, total)
			}
		})
	}
	begun.Wait()
	for at := int64(0); at < total; {
		n := min(1+rand.Int64N(9000), total-at)
		s.Append(1, pattern(at, n))
		at += n
	}
	s.End(0, 0, "")
	wg.Wait()
	create(t, l, "y").Append(1, []byte("y")) // now nobody holds anything back
	if _, size := files(t, l.dir); size > 256<<10+64<<10 {
		t.Errorf("%d bytes are kept", size)
	}
}

func TestRingDropsTheOldestAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Segment: 10_000, Max: 100_000})
	old, busy := create(t, l, "old"), create(t, l, "busy")
	old.Append(1, []byte("first"))
	for i := range int64(50) {
		busy.Append(1, pattern(i*9000, 9000))
	}
	old.Append(1, []byte("later"))
	old.End(0, 0, "")
	busy.End(0, 0, "")
	if _, size := files(t, dir); size > 110_000 {
		t.Errorf("%d bytes are kept, the bound is 100,000", size)
	}
	out, lost := read(t, old, 0)
	if string(out[1]) != "later" || lost != 5 || old.First() != 5 {
		t.Errorf("the quiet command: %q, %d lost, first %d", out[1], lost, old.First())
	}
	out, lost = read(t, busy, 1000)
	if lost != busy.First()-1000 || !bytes.Equal(out[1], pattern(busy.First(), 450_000-busy.First())) {
		t.Errorf("the busy command: %d bytes, %d lost, first %d", len(out[1]), lost, busy.First())
	}
	if len(out[1]) < 70_000 {
		t.Errorf("only %d bytes are kept", len(out[1]))
	}
}

func TestManySmallOutputsAreBounded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Max: 100 * block})
	for range 300 {
		s := create(t, l, "x")
		s.Append(1, []byte("x"))
		s.End(0, 0, "")
	}
	if n, _ := files(t, dir); n != 100 {
		t.Errorf("%d files, want 100", n)
	}
}

func TestReaderHoldsItsOutput(t *testing.T) {
	l := open(t, t.TempDir(), Options{Segment: 10_000, Max: 50_000})
	slow, other := create(t, l, "slow"), create(t, l, "other")
	r := slow.Reader(0)
	slow.Append(1, pattern(0, 30_000))
	for range 30 {
		other.Append(1, make([]byte, 9000))
	}
	if lag := slow.Lag(); lag != 30_000 {
		t.Errorf("lag %d", lag)
	}
	var got []byte
	for len(got) < 30_000 {
		c, err := r.Next(t.Context())
		if err != nil || c.Lost > 0 {
			t.Fatalf("%+v, %v", c, err)
		}
		got = append(got, c.Data...)
	}
	if !bytes.Equal(got, pattern(0, 30_000)) {
		t.Error("other bytes")
	}
	r.Close()
	if l.Readers() != 0 || slow.Lag() != 0 {
		t.Error("a closed reader still counts")
	}
	other.Append(1, make([]byte, 20_000))
	if slow.First() != 30_000 {
		t.Errorf("output that nobody waits for is kept from %d on", slow.First())
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	r := create(t, l, "x").Reader(0)
	defer r.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if _, err := r.Next(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func FuzzSegment(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x03abc\x02\x00\x00\x01x"), int64(0))
	f.Add([]byte("\x01\xff\xff\xffabc"), int64(2))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00"), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, from int64) {
		dir := t.TempDir()
		if os.WriteFile(filepath.Join(dir, indexFile), []byte(`{"id":1,"ended":"2020-01-01T00:00:00Z"}`+"\n"), 0o600) != nil ||
			os.WriteFile(filepath.Join(dir, "1-0000000000000000.out"), b, 0o600) != nil {
			t.Fatal("write")
		}
		l, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := l.Stream(1)
		r := s.Reader(from)
		defer r.Close()
		at := max(from, 0)
		for {
			c, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || c.Offset != at || int64(len(c.Data))+c.Lost <= 0 {
				t.Fatalf("at %d: %+v, %v", at, c, err)
			}
			at += int64(len(c.Data)) + c.Lost
		}
		if end := s.Entry().Output; at < end || end > int64(len(b)) {
			t.Fatalf("read to %d of %d, the file has %d", at, end, len(b))
		}
	})
}
