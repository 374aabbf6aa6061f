package shim

import (
	"fmt"

	"github.com/sbxd/sbxd/session"
)

// Output is bounded like this. The guest sends within its credit; what it sends goes to
// the log at once, and it gets new credit for it, unless somebody is attached who lags:
// then the command has to wait for him. With nobody attached nothing waits, and the
// log's ring forgets.

// maxLag is how far an attached client may be behind, in bytes, before its command waits.
// With many attached it is less, so that what all of them lag fits half of the ring.
const (
	maxLag  = 4 << 20
	halfLog = 32 << 20
)

// grant is how much credit is given at once, so that it costs little.
const grant = session.Window / 4

func (x *Execs) takeOutput(c *command, fd int, p []byte) error {
	if len(p) == 0 || fd != 1 && (fd != 2 || c.tty) {
		return fmt.Errorf("%d bytes on channel %d", len(p), fd)
	}
	x.mu.Lock()
	within := int64(len(p)) <= c.credit
	c.credit -= int64(len(p))
	x.mu.Unlock()
	if !within {
		return fmt.Errorf("%d bytes of output beyond the credit given", len(p))
	}
	c.out.Append(byte(fd), p)
	x.mu.Lock()
	c.due += int64(len(p))
	x.mu.Unlock()
	x.pay(c)
	return nil
}

// pay gives the guest credit for the output that the log has, if there is enough of it
// and nobody lags too far. It is called after output came and after somebody read.
func (x *Execs) pay(c *command) {
	x.mu.Lock()
	n := c.due
	if c.state != started || n < grant || x.lags(c) {
		x.mu.Unlock()
		return
	}
	c.due = 0
	c.credit += n
	x.mu.Unlock()
	_ = x.conn.Write(session.Msg{Type: session.MsgCredit, ID: c.id, N: n}, nil) // Run sees a broken connection
}

func (x *Execs) lags(c *command) bool {
	limit := int64(maxLag)
	if n := x.log.Readers(); n > 0 {
		limit = max(min(limit, int64(halfLog/n)), session.Window)
	}
	return c.out.Lag() > limit
}
