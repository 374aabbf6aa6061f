package execlog

import "time"

// Stream is one command: its entry and its output, over both channels in order.
type Stream struct {
	log *Log

	// All guarded by log.mu.
	entry    Entry
	size     int64      // bytes of output so far, kept or not
	segments []*segment // by start; between two there may be a gap
	readers  map[*Reader]struct{}
	changed  chan struct{} // closed at the next change; nil while nobody waits
}

// ID is the number of the command, from 1, never used twice in a log.
func (s *Stream) ID() uint32 { return s.entry.ID }

// Entry returns what is known of the command now.
func (s *Stream) Entry() Entry {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	e := s.entry
	e.Output = s.size
	return e
}

// First is the offset of the oldest output that is kept; what came before it is lost.
func (s *Stream) First() int64 {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if len(s.segments) == 0 {
		return s.size
	}
	return s.segments[0].start
}

// Append adds output of channel fd. It always advances the offset: what cannot be kept
// is lost, but to the readers that are there, and Log.Err says why. After End it does
// nothing.
func (s *Stream) Append(fd byte, p []byte) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p) > 0 && s.entry.Running() && !l.opt.ReadOnly {
		n := min(len(p), maxRecord)
		if l.err = s.append(fd, p[:n]); l.err != nil {
			s.hold(fd, p[:n])
		}
		s.size += int64(n)
		p = p[n:]
	}
	s.wake()
}

func (s *Stream) append(fd byte, p []byte) (err error) {
	l := s.log
	g := s.growing()
	if g == nil {
		s.seal()
		if g, err = s.open(); err != nil {
			return err
		}
	}
	l.total -= g.cost()
	l.scratch, err = g.grow(fd, p, l.scratch)
	l.total += g.cost()
	l.ring.MoveToBack(g.elem)
	l.shrink(g)
	if err != nil {
		s.seal() // the next bytes are not next to the last
		if g.bytes == 0 {
			l.drop(g)
		}
	}
	return err
}

// growing is the segment that takes more, or nil.
func (s *Stream) growing() *segment {
	n := len(s.segments)
	if n == 0 {
		return nil
	}
	if g := s.segments[n-1]; g.file != nil && g.size < s.log.opt.Segment && g.end() == s.size {
		return g
	}
	return nil
}

// maxMessage bounds the message of a command, in bytes.
const maxMessage = 4 << 10

// End records how the command ended, in the index before anywhere else. Only the first
// one counts.
func (s *Stream) End(code, signal int, message string) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.entry.Running() && !s.log.opt.ReadOnly {
		s.end(code, signal, message)
	}
}

func (s *Stream) end(code, signal int, message string) {
	s.entry.Ended = time.Now().UTC()
	s.entry.Code, s.entry.Signal, s.entry.Message = code, signal, message[:min(len(message), maxMessage)]
	s.entry.Output = s.size
	s.seal()
	s.log.note(&s.entry)
	s.wake()
}

// wake lets the readers that wait look again. The caller holds mu.
func (s *Stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Lag is how many bytes of output the slowest reader has yet to read.
func (s *Stream) Lag() int64 {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	var lag int64
	for r := range s.readers {
		lag = max(lag, s.size-r.pos)
	}
	return lag
}

// awaited reports whether a reader has yet to read of g. The caller holds mu.
func (s *Stream) awaited(g *segment) bool {
	for r := range s.readers {
		if r.pos < g.end() {
			return true
		}
	}
	return false
}
