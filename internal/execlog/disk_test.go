package execlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

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
	dir := smallDisk(t, "64k")
	l := open(t, dir, Options{Segment: 16 << 10})
	s := create(t, l, "x")
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
