package execlog

import (
	"container/list"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// segment is a file that holds a stretch of one command's output: records of a channel,
// a length and bytes. It is a piece of memory where the disk had no room.
type segment struct {
	stream *Stream
	start  int64         // offset of its first byte of output
	bytes  int64         // of output
	size   int64         // of the file, or of held
	file   *os.File      // open while it may grow
	held   []byte        // not nil: there is no file
	elem   *list.Element // of the log's ring, or of held
}

func (g *segment) end() int64 { return g.start + g.bytes }

// cost is what a segment counts in the ring: whole blocks, so that many small files are
// bounded too.
func (g *segment) cost() int64 { return (g.size + block - 1) / block * block }

const block = 4096

// A record's head is one byte of channel and three of length.
const (
	headLen   = 4
	maxRecord = 1<<24 - 1
)

func (g *segment) name() string { return fmt.Sprintf("%d-%016x.out", g.stream.entry.ID, g.start) }

// parseName is the inverse of name.
func parseName(name string) (id uint32, start int64, ok bool) {
	rest, isOut := strings.CutSuffix(name, ".out")
	if !isOut {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(rest, "%d-%016x", &id, &start)
	return id, start, n == 2 && err == nil && start >= 0
}

// grow appends a record and reports whether it did; if not, the file is as before.
func (g *segment) grow(fd byte, p []byte, scratch []byte) ([]byte, error) {
	scratch = binary.BigEndian.AppendUint32(scratch[:0], uint32(fd)<<24|uint32(len(p)))
	scratch = append(scratch, p...)
	if _, err := g.file.Write(scratch); err != nil {
		_ = g.file.Truncate(g.size)
		return scratch, err
	}
	g.size += int64(len(scratch))
	g.bytes += int64(len(p))
	return scratch, nil
}

// open makes a new segment at the end of s. The caller holds mu.
func (s *Stream) open() (*segment, error) {
	g := &segment{stream: s, start: s.size}
	f, err := os.OpenFile(s.log.path(g.name()), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	g.file = f
	s.segments = append(s.segments, g)
	g.elem = s.log.ring.PushBack(g)
	return g, nil
}

// seal ends the growth of the last segment. The caller holds mu.
func (s *Stream) seal() {
	if n := len(s.segments); n > 0 && s.segments[n-1].file != nil {
		_ = s.segments[n-1].file.Close()
		s.segments[n-1].file = nil
	}
}

// shrink drops the segments that were not written for longest until the ring is within
// its bound. It keeps the one that was just written, and what a reader has yet to read:
// with slow readers the ring is over its bound by as much as they lag. The caller holds mu.
func (l *Log) shrink(written *segment) {
	for e := l.ring.Front(); e != nil && l.total > l.opt.Max; {
		g := e.Value.(*segment)
		e = e.Next()
		if g != written && !g.stream.awaited(g) {
			l.drop(g)
		}
	}
}

// drop removes a segment. The caller holds mu.
func (l *Log) drop(g *segment) {
	s := g.stream
	for i := range s.segments {
		if s.segments[i] == g {
			s.segments = append(s.segments[:i], s.segments[i+1:]...)
			break
		}
	}
	if g.file != nil {
		_ = g.file.Close()
		g.file = nil
	}
	if g.held != nil {
		l.held.Remove(g.elem)
		l.heldBytes -= g.size
		return
	}
	l.ring.Remove(g.elem)
	l.total -= g.cost()
	_ = os.Remove(l.path(g.name()))
}

// loadSegments finds the output of an earlier process.
func (l *Log) loadSegments() error {
	names, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	var found []*segment
	for _, d := range names {
		id, start, ok := parseName(d.Name())
		if !ok {
			continue
		}
		s := l.streams[id]
		if s == nil { // its command was forgotten
			if !l.opt.ReadOnly {
				_ = os.Remove(l.path(d.Name()))
			}
			continue
		}
		g := &segment{stream: s, start: start}
		if err := g.scan(l.path(d.Name())); err != nil {
			return err
		}
		found = append(found, g)
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := found[i], found[j]
		return a.stream.entry.ID < b.stream.entry.ID || a.stream == b.stream && a.start < b.start
	})
	for _, g := range found {
		g.stream.segments = append(g.stream.segments, g)
		g.stream.size = max(g.stream.size, g.end())
		g.elem = l.ring.PushBack(g)
		l.total += g.cost()
	}
	return nil
}

// scan measures a segment. A record that a crash has cut counts as far as it goes.
func (g *segment) scan(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	g.size = st.Size()
	var head [headLen]byte
	for at := int64(0); at+headLen < g.size; {
		if _, err := f.ReadAt(head[:], at); err != nil && err != io.EOF {
			return err
		}
		n := min(recordLen(head), g.size-at-headLen)
		g.bytes += n
		at += headLen + n
	}
	return nil
}

func recordLen(head [headLen]byte) int64 {
	return int64(binary.BigEndian.Uint32(head[:]) & maxRecord)
}
