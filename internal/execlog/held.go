package execlog

import "encoding/binary"

// Output that the disk has no room for is held in memory, for the readers that have yet
// to read it and no longer: segments without a file, in a small ring of their own. So a
// full disk costs those who come later their output, and those who are there nothing,
// unless they lag by more than the ring.

// heldSize is how large a segment in memory grows, in bytes. A reader may keep one that
// was dropped under it.
const heldSize = 64 << 10

// hold adds output that comes next and that the disk did not take. The caller holds mu.
func (s *Stream) hold(fd byte, p []byte) {
	l := s.log
	if len(s.readers) == 0 || int64(len(p)) > l.opt.Held {
		return
	}
	g := s.holding()
	if g == nil {
		g = &segment{stream: s, start: s.size, held: []byte{}}
		s.segments = append(s.segments, g)
		g.elem = l.held.PushBack(g)
	}
	before := g.size
	g.held = binary.BigEndian.AppendUint32(g.held, uint32(fd)<<24|uint32(len(p)))
	g.held = append(g.held, p...)
	g.size = int64(len(g.held))
	g.bytes += int64(len(p))
	l.heldBytes += g.size - before
	for l.heldBytes > l.opt.Held {
		l.drop(l.held.Front().Value.(*segment))
	}
}

// holding is the segment in memory that takes more, or nil.
func (s *Stream) holding() *segment {
	n := len(s.segments)
	if n == 0 {
		return nil
	}
	if g := s.segments[n-1]; g.held != nil && g.size < heldSize && g.end() == s.size {
		return g
	}
	return nil
}

// letGo drops what is held in memory and no reader has yet to read. The caller holds mu.
func (s *Stream) letGo() {
	l := s.log
	for e := l.held.Front(); e != nil; {
		g := e.Value.(*segment)
		e = e.Next()
		if g.stream == s && !s.awaited(g) {
			l.drop(g)
		}
	}
}
