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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

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
		if err == io.EOF {
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
				if err == io.EOF {
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
	if _, err := r.Next(ctx); err != why {
		t.Errorf("got %v", err)
	}
}

func TestAnotherProcessGoesOn(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Segment: 1000})
	done, cut := create(t, l, "done", "it"), create(t, l, "cut")
	done.Append(1, pattern(0, 5000))
	done.End(3, 0, "")
	cut.Append(2, pattern(0, 2500))
	// Here the process dies. Its last write is torn, in output and index.
	last := filepath.Join(dir, cut.segments[len(cut.segments)-1].name())
	if err := os.Truncate(last, cut.segments[len(cut.segments)-1].size-100); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, indexFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(`{"id":2,"ended":"20`)
	f.Close()

	if got, err := Read(dir); err != nil || len(got) != 2 || !got[1].Running() || got[0].Code != 3 {
		t.Errorf("read only: %+v, %v", got, err)
	}
	l = open(t, dir, Options{Segment: 1000})
	want := []Entry{
		{ID: 1, Argv: []string{"done", "it"}, Code: 3, Output: 5000},
		{ID: 2, Argv: []string{"cut"}, Code: 137, Signal: 9, Message: "the session ended while it ran", Output: 2400},
	}
	for range 2 {
		got, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Entry{}, "Started", "Ended")); diff != "" {
			t.Errorf("index (-want +got):\n%s", diff)
		}
		l = open(t, dir, Options{Segment: 1000}) // and nothing more changes
	}
	if out, lost := read(t, l.Stream(1), 0); !bytes.Equal(out[1], pattern(0, 5000)) || lost != 0 {
		t.Errorf("first: %d bytes, %d lost", len(out[1]), lost)
	}
	if out, lost := read(t, l.Stream(2), 100); !bytes.Equal(out[2], pattern(100, 2300)) || lost != 0 {
		t.Errorf("second: %d bytes, %d lost", len(out[2]), lost)
	}
	if s := create(t, l, "next"); s.ID() != 3 {
		t.Errorf("the next id is %d", s.ID())
	}
}

func TestEndIsOnDiskWhenEndReturns(t *testing.T) {
	dir := t.TempDir()
	s := create(t, open(t, dir, Options{}), "x")
	s.End(7, 0, "")
	s.End(8, 0, "a second time")
	s.Append(1, []byte("too late"))
	got, err := Read(dir)
	if err != nil || len(got) != 1 || got[0].Code != 7 || got[0].Output != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestIndexIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Keep: 10})
	running := create(t, l, strings.Repeat("long ", 10_000), "x", "y")
	for range 500 {
		s := create(t, l, "x")
		s.Append(1, []byte("x"))
		s.End(0, 0, strings.Repeat("m", 100_000))
	}
	if n, _ := files(t, dir); n > 50 {
		t.Errorf("%d files", n)
	}
	if l.Stream(1) != running || l.Stream(2) != nil || l.Stream(501) == nil {
		t.Error("kept the wrong ones")
	}
	if st, err := os.Stat(filepath.Join(dir, indexFile)); err != nil || st.Size() > 50*8000 {
		t.Errorf("index of %d bytes, %v", st.Size(), err)
	}
	running.End(4, 0, "")
	if got, err := Read(dir); err != nil || got[0].ID != 1 || got[0].Code != 4 {
		t.Errorf("the one that ran longest: id %d, code %d, %v", got[0].ID, got[0].Code, err)
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := create(t, open(t, dir, Options{}), "x")
	s.Append(1, []byte("some"))
	l := open(t, dir, Options{ReadOnly: true})
	if _, err := l.Create(nil, false); !errors.Is(err, ErrReadOnly) {
		t.Errorf("create: %v", err)
	}
	l.Stream(1).End(0, 0, "")
	l.Stream(1).Append(1, []byte("x"))
	s.Append(1, []byte(" more"))
	s.End(0, 0, "")
	if out, _ := read(t, s, 0); string(out[1]) != "some more" {
		t.Errorf("got %q", out[1])
	}
}

func TestSomebodyElsesFiles(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	s := create(t, l, "x")
	s.Append(1, []byte("abc"))
	for name, text := range map[string]string{"7-0000000000000000.out": "x", "notes": "n", "1-zz.out": "y", "-1-0.out": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = open(t, dir, Options{})
	if out, _ := read(t, l.Stream(1), 0); string(out[1]) != "abc" {
		t.Errorf("got %q", out[1])
	}
	if _, err := os.Stat(filepath.Join(dir, "notes")); err != nil {
		t.Error("a file that is not ours is gone")
	}
	if err := os.Remove(filepath.Join(dir, l.Stream(1).segments[0].name())); err != nil {
		t.Fatal(err)
	}
	if _, lost := read(t, l.Stream(1), 1); lost != 2 {
		t.Errorf("%d bytes lost, want 2", lost)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "1-0000000000000003.out"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("took a fifo for output")
	}
}

func TestFullDisk(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := testbox.TempDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	l := open(t, dir, Options{Segment: 16 << 10})
	s := create(t, l, "x")
	r := s.Reader(0)
	defer r.Close()
	for i := range int64(30) {
		s.Append(1, pattern(i*5000, 5000))
	}
	if !errors.Is(l.Err(), unix.ENOSPC) {
		t.Fatalf("error %v", l.Err())
	}
	if err := os.Remove(filepath.Join(dir, s.segments[0].name())); err != nil {
		t.Fatal(err)
	}
	s.Append(2, []byte("there is room again"))
	s.End(5, 0, "")
	if l.Err() != nil {
		t.Errorf("error %v with room", l.Err())
	}
	out, lost := read(t, s, 0)
	if string(out[2]) != "there is room again" || int64(len(out[1]))+lost != 150_000 || lost == 0 {
		t.Errorf("%d bytes and %q, %d lost", len(out[1]), out[2], lost)
	}
	if got, err := Read(dir); err != nil || got[0].Code != 5 || got[0].Output != 150_019 {
		t.Errorf("index %+v, %v", got, err)
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
			if err == io.EOF {
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
