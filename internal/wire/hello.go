package wire

import (
	"errors"
	"fmt"
)

// ErrVersion is wrapped by the error of a Handshake between two ends that share no
// version of the protocol.
var ErrVersion = errors.New("no common protocol version")

// Hello is the header of the first frame of each direction: the newest version of the
// protocol that the sender speaks, and the oldest that it still does.
type Hello struct {
	Type  string `json:"t"` // "hello"
	Proto int    `json:"proto"`
	Min   int    `json:"min"`
}

// Handshake sends mine, reads the peer's and returns the version that both speak. It has
// no time-out of its own: set a deadline on the stream below where the peer may be slow.
func Handshake(c *Conn, mine Hello) (proto int, err error) {
	mine.Type = "hello"
	sent := make(chan error, 1)
	go func() { sent <- c.Write(mine, nil) }() // both ends write first: neither may wait
	var theirs Hello
	payload, err := c.Read(&theirs)
	if err != nil {
		return 0, fmt.Errorf("greet: %w", err)
	}
	if err := <-sent; err != nil {
		return 0, fmt.Errorf("greet: %w", err)
	}
	if theirs.Type != "hello" || len(payload) != 0 || theirs.Min < 1 || theirs.Proto < theirs.Min {
		return 0, fmt.Errorf("greet: %w: not a hello", ErrMalformed)
	}
	proto = min(mine.Proto, theirs.Proto)
	if proto < max(mine.Min, theirs.Min) {
		return 0, fmt.Errorf("greet: %w: we speak %d to %d, the other end %d to %d",
			ErrVersion, mine.Min, mine.Proto, theirs.Min, theirs.Proto)
	}
	return proto, nil
}
