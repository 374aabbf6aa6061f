// Package wire carries frames over a byte stream: between the daemon and a session's
// shim, and between the shim and the guest. A frame is a 4-byte big-endian length of
// the rest, a 4-byte big-endian header length, the header as JSON, and bytes.
//
// It knows lengths and nothing else: what a header means is for its callers. The other
// end may be hostile, so no length is believed, and nothing is allocated, before it was
// compared with a bound.
package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Bounds of a frame in bytes. A header holds the arguments and the environment of a
// command, of which the kernel takes about 2 MiB; half of it is more than was ever
// seen. What is larger is refused by Write with ErrTooLarge before a byte is sent.
const (
	MaxFrame  = 2 << 20
	MaxHeader = 1 << 20
)

// prefix is the two lengths that precede each frame.
const prefix = 8

// keepBuffer is the size up to which a read buffer is kept for the next frame, so that
// one large frame does not hold its memory for the life of a session.
const keepBuffer = 256 << 10

// ErrTooLarge is wrapped by errors about a frame, or a part of one, over its bound.
var ErrTooLarge = errors.New("frame too large")

// ErrMalformed is wrapped by errors about a frame that is not one.
var ErrMalformed = errors.New("malformed frame")

// Conn reads and writes frames. Write and Close may be called by any goroutine; Read
// belongs to one.
type Conn struct {
	rwc io.ReadWriteCloser
	in  *bufio.Reader

	maxHeader, maxPayload int    // of frames read
	buf                   []byte // of the last frame read

	mu  sync.Mutex // guards the fields below, and the order of writes
	out []byte     // prefix and header of the frame being written
	err error      // the first failed write: the stream is torn after it
}

// New returns a Conn over rwc, which it then owns.
func New(rwc io.ReadWriteCloser) *Conn {
	return &Conn{rwc: rwc, in: bufio.NewReader(rwc), maxHeader: MaxHeader, maxPayload: MaxFrame}
}

// Limit lowers the bounds of the frames that Read takes, in bytes; for a peer that has
// no business sending large ones. Call it before the first Read.
func (c *Conn) Limit(header, payload int) {
	c.maxHeader, c.maxPayload = min(header, MaxHeader), min(payload, MaxFrame)
}

// Write sends one frame: hdr as JSON, then payload. Frames of several goroutines do not
// mix. After a failed write every further one fails, since the peer may have half of a
// frame; an error about hdr itself or a bound leaves the connection usable.
func (c *Conn) Write(hdr any, payload []byte) error {
	h, err := json.Marshal(hdr)
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	if len(h) > MaxHeader || len(payload) > MaxFrame-4-len(h) {
		return fmt.Errorf("%w: header %d and payload %d bytes", ErrTooLarge, len(h), len(payload))
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.out = binary.BigEndian.AppendUint32(c.out[:0], uint32(4+len(h)+len(payload)))
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(h)))
	c.out = append(c.out, h...)
	if err := c.send(payload); err != nil {
		c.err = fmt.Errorf("write frame: %w", err)
		return c.err
	}
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	return nil
}

// send writes c.out and payload, in one system call where the stream can do it.
func (c *Conn) send(payload []byte) error {
	if len(payload) == 0 {
		_, err := c.rwc.Write(c.out)
		return err
	}
	bufs := net.Buffers{c.out, payload}
	_, err := bufs.WriteTo(c.rwc)
	return err
}

// Read takes the next frame, decodes its header into hdr, a pointer to a zero value, and
// returns its payload, which is valid until the next Read. It returns io.EOF at a clean
// end between two frames, and an error that wraps ErrTooLarge or ErrMalformed for a peer
// that does not keep to the format; the stream is then of no further use.
func (c *Conn) Read(hdr any) (payload []byte, err error) {
	var lens [prefix]byte
	if _, err := io.ReadFull(c.in, lens[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, err
		}
		return nil, fmt.Errorf("read frame: %w", err)
	}
	h, p, err := c.lengths(lens)
	if err != nil {
		return nil, err
	}
	buf := c.buffer(h + p)
	if _, err := io.ReadFull(c.in, buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read frame: %w", err)
	}
	if err := json.Unmarshal(buf[:h], hdr); err != nil {
		return nil, fmt.Errorf("%w: decode header: %w", ErrMalformed, err)
	}
	return buf[h:], nil
}

// lengths checks the two lengths of a frame and returns those of header and payload.
func (c *Conn) lengths(b [prefix]byte) (header, payload int, err error) {
	n, h := binary.BigEndian.Uint32(b[:4]), binary.BigEndian.Uint32(b[4:])
	switch {
	case n > MaxFrame:
		return 0, 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, MaxFrame)
	case n < 4 || h > n-4:
		return 0, 0, fmt.Errorf("%w: header of %d bytes in a frame of %d", ErrMalformed, h, n)
	case int(h) > c.maxHeader:
		return 0, 0, fmt.Errorf("%w: header of %d bytes, at most %d", ErrTooLarge, h, c.maxHeader)
	case int(n-4-h) > c.maxPayload:
		return 0, 0, fmt.Errorf("%w: payload of %d bytes, at most %d", ErrTooLarge, n-4-h, c.maxPayload)
	}
	return int(h), int(n - 4 - h), nil
}

// buffer returns n bytes, of the buffer of the last frame where it is large enough.
func (c *Conn) buffer(n int) []byte {
	if n > cap(c.buf) || cap(c.buf) > keepBuffer {
		c.buf = make([]byte, n)
	}
	return c.buf[:n]
}

// Close ends the connection; a blocked Read or Write returns.
func (c *Conn) Close() error { return c.rwc.Close() }
