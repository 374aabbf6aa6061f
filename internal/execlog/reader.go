package execlog

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readSize is how much of a segment is read at once, and the most that Next returns.
const readSize = 64 << 10

// Chunk is a piece of output, or a gap where Lost is not 0.
type Chunk struct {
	FD     byte
	Offset int64  // bytes of output before it
	Data   []byte // valid until the next call of Next
	Lost   int64
}

// Reader reads the output of a command from an offset on, once each byte, as it comes.
// While it is open nothing that it has yet to read is dropped. It belongs to one
// goroutine.
type Reader struct {
	s   *Stream
	pos int64 // guarded by log.mu; written by the reader's goroutine only

	seg  *segment
	file *os.File
	held []byte // of a segment in memory, instead of file
	at   int64  // offset in file of what is not in buf
	size int64  // of the file, as far as it was written when place looked
	left int64  // of the current record, not yet returned, in buf or after it
	fd   byte   // of the current record
	skip int64  // bytes of output to leave out
	buf  []byte
	mem  []byte
}

// Reader opens a reader at offset from; beyond the end it waits there.
func (s *Stream) Reader(from int64) *Reader {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	r := &Reader{s: s, pos: max(from, 0), mem: make([]byte, readSize)}
	s.readers[r] = struct{}{}
	s.log.readers++
	return r
}

// Close lets go of the output.
func (r *Reader) Close() {
	r.s.log.mu.Lock()
	defer r.s.log.mu.Unlock()
	if _, open := r.s.readers[r]; open {
		delete(r.s.readers, r)
		r.s.log.readers--
		r.s.letGo()
	}
	r.leave()
}

func (r *Reader) leave() {
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file, r.held, r.seg, r.buf, r.left = nil, nil, nil, nil, 0
}

// Next waits for output and returns the next piece. It returns io.EOF after the last
// one of a command that has ended, and ctx's error when that is done first.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	for {
		wait, c, err := r.place()
		switch {
		case err != nil || c.Lost > 0:
			return c, err
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return Chunk{}, context.Cause(ctx)
			}
			continue
		}
		c, err = r.take()
		if err != nil { // unreadable: to the reader it is lost
			c = Chunk{Offset: r.pos, Lost: r.seg.end() - r.pos}
			r.leave()
		}
		if n := int64(len(c.Data)) + c.Lost; n > 0 {
			r.advance(n)
			return c, nil
		}
	}
}

func (r *Reader) advance(n int64) {
	r.s.log.mu.Lock()
	r.pos += n
	r.s.letGo()
	r.s.log.mu.Unlock()
}

// place finds the segment of pos. It returns a channel to wait on when there is nothing
// yet, a gap when pos lies in one, and io.EOF at the end.
func (r *Reader) place() (wait <-chan struct{}, gap Chunk, err error) {
	s := r.s
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if r.pos >= s.size {
		if !s.entry.Running() {
			return nil, gap, io.EOF
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return s.changed, gap, nil
	}
	g := s.at(r.pos)
	if g == nil || g.start > r.pos {
		to := s.size
		if g != nil {
			to = g.start
		}
		gap = Chunk{Offset: r.pos, Lost: to - r.pos}
		r.pos = to
		return nil, gap, nil
	}
	if err := r.enter(g); err != nil { // somebody removed it
		gap = Chunk{Offset: r.pos, Lost: g.end() - r.pos}
		r.pos = g.end()
	}
	return nil, gap, nil
}

// at is the first segment that ends after pos.
func (s *Stream) at(pos int64) *segment {
	for _, g := range s.segments {
		if g.end() > pos {
			return g
		}
	}
	return nil
}

// enter opens g unless it is open. The caller holds mu, so that g is not dropped.
func (r *Reader) enter(g *segment) error {
	if r.seg == g {
		r.size, r.held = g.size, g.held
		return nil
	}
	r.leave()
	if g.held != nil {
		r.held, r.seg, r.at, r.size, r.skip = g.held, g, 0, g.size, r.pos-g.start
		return nil
	}
	f, err := os.OpenFile(r.s.log.path(g.name()), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	r.file, r.seg, r.at, r.size, r.skip = f, g, 0, g.size, r.pos-g.start
	return nil
}

// take returns the next bytes of the segment, or none when it only moved on.
func (r *Reader) take() (Chunk, error) {
	if len(r.buf) == 0 || r.left == 0 && len(r.buf) < headLen {
		if err := r.fill(); err != nil {
			return Chunk{}, err
		}
	}
	if r.left == 0 {
		head := binary.BigEndian.Uint32(r.buf)
		r.fd, r.left = byte(head>>24), int64(head&maxRecord)
		r.buf = r.buf[headLen:]
	}
	n := min(r.left, int64(len(r.buf)))
	p := r.buf[:n]
	r.buf, r.left = r.buf[n:], r.left-n
	if skip := min(r.skip, n); skip > 0 {
		r.skip -= skip
		p = p[skip:]
	}
	return Chunk{FD: r.fd, Offset: r.pos, Data: p}, nil
}

func (r *Reader) readAt(p []byte) (int, error) {
	if r.held != nil {
		return copy(p, r.held[r.at:]), nil
	}
	return r.file.ReadAt(p, r.at)
}

var errCut = errors.New("the segment is cut")

// fill reads on; what is left of buf, less than a head, stays at its front.
func (r *Reader) fill() error {
	kept := copy(r.mem, r.buf)
	n, err := r.readAt(r.mem[kept : kept+int(min(r.size-r.at, int64(readSize-kept)))])
	if n == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = errCut
		}
		return err
	}
	r.at += int64(n)
	r.buf = r.mem[:kept+n]
	if r.left == 0 && len(r.buf) < headLen {
		return errCut
	}
	return nil
}
