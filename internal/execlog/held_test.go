package execlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// smallDisk is a directory with so much room; the caller is in namespaces of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := testbox.TempDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// drain reads all that is there for r, and returns it and what was lost.
func drain(t *testing.T, r *Reader) (got []byte, lost int64) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		c, err := r.Next(ctx)
		cancel()
		if errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
			return got, lost
		}
		if err != nil {
			t.Fatal(err)
		}
		got, lost = append(got, c.Data...), lost+c.Lost
	}
}

func TestAFullDiskCostsNoReaderThatIsThere(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	l := open(t, smallDisk(t, "64k"), Options{Segment: 16 << 10})
	s, other := create(t, l, "x"), create(t, l, "y")
	r, late := s.Reader(0), s.Reader(1000)
	const total = 100 * 5000
	for at := int64(0); at < total; at += 5000 {
		s.Append(byte(1+at/5000%2), pattern(at, 5000))
		other.Append(1, pattern(at, 100)) // nobody reads that
	}
	if !errors.Is(l.Err(), unix.ENOSPC) {
		t.Fatalf("error %v", l.Err())
	}
	for from, r := range map[int64]*Reader{0: r, 1000: late} {
		if got, lost := drain(t, r); lost != 0 || !bytes.Equal(got, pattern(from, total-from)) {
			t.Errorf("from %d: %d bytes, %d lost", from, len(got), lost)
		}
	}
	if l.heldBytes != 0 || l.held.Len() != 0 {
		t.Errorf("%d bytes are held when all was read", l.heldBytes)
	}
	// Of what comes now the one that goes takes nothing with it.
	s.Append(1, pattern(total, 3000))
	late.Close()
	if l.heldBytes == 0 {
		t.Error("nothing is held for the one that is left")
	}
	s.End(0, 0, "")
	if got, lost := drain(t, r); lost != 0 || !bytes.Equal(got, pattern(total, 3000)) {
		t.Errorf("at the end: %d bytes, %d lost", len(got), lost)
	}
	r.Close()
	// Nobody held it for one who was not there.
	if _, lost := read(t, s, 0); lost == 0 {
		t.Error("everything was kept, on a disk that is full")
	}
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	const bound = 200_000
	l := open(t, smallDisk(t, "8k"), Options{Segment: 4096, Held: bound})
	slow, quick := create(t, l, "slow"), create(t, l, "quick")
	sr, qr := slow.Reader(0), quick.Reader(0)
	defer sr.Close()
	defer qr.Close()
	for at := int64(0); at < 900_000; at += 9000 {
		slow.Append(1, pattern(at, 9000))
		quick.Append(1, pattern(at, 9000))
		if got, lost := drainNow(t, qr, at+9000); lost != 0 || !bytes.Equal(got, pattern(at, 9000)) {
			t.Fatalf("the quick one at %d: %d bytes, %d lost", at, len(got), lost)
		}
		if l.heldBytes > bound {
			t.Fatalf("%d bytes are held", l.heldBytes)
		}
	}
	slow.Append(1, make([]byte, bound+1)) // at once
	slow.End(0, 0, "")
	got, lost := drain(t, sr)
	if lost == 0 || int64(len(got))+lost != 900_000+bound+1 || len(got) < bound/2 {
		t.Errorf("the slow one: %d bytes, %d lost", len(got), lost)
	}
}

// drainNow reads up to offset to.
func drainNow(t *testing.T, r *Reader, to int64) (got []byte, lost int64) {
	t.Helper()
	for r.pos < to {
		c, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, lost = append(got, c.Data...), lost+c.Lost
	}
	return got, lost
}

func TestReadersFollowOnADiskThatFillsAndEmpties(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	l := open(t, smallDisk(t, "128k"), Options{Segment: 16 << 10, Max: 32 << 10})
	s := create(t, l, "x")
	const total = 4 << 20
	filler := filepath.Join(l.dir, "filler")
	var wg sync.WaitGroup
	for range 3 {
		r := s.Reader(0)
		wg.Go(func() {
			defer r.Close()
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
	for i, at := 0, int64(0); at < total; i++ {
		switch i % 200 {
		case 50:
			_ = os.WriteFile(filler, make([]byte, 128<<10), 0o600) // as much as there is room for
		case 150:
			_ = os.Remove(filler)
		}
		n := min(int64(1+i*37%9000), total-at)
		s.Append(1, pattern(at, n))
		at += n
		for s.Lag() > 1<<20 { // as a command waits for its readers
			time.Sleep(time.Millisecond)
		}
	}
	s.End(0, 0, "")
	wg.Wait()
	if l.heldBytes != 0 {
		t.Errorf("%d bytes are held when nobody reads", l.heldBytes)
	}
}
