package shim

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sbxd/sbxd/session"
)

// input is the shim's side of a command's stdin. It belongs to one client at a time, the
// last that took it; the room that the guest has goes with it.
type input struct {
	// order is held while bytes go to the guest, so that those of a client come before
	// those of the next.
	order sync.Mutex

	// Guarded by Execs.mu.
	open     bool // the command has a stdin, and it was not ended
	owner    *client
	room     int64 // bytes that may go to the guest now
	received int64 // bytes that went to it
}

// own makes cl the one that sends stdin, and returns what was received so far and how
// much more may come.
func (x *Execs) own(c *command, cl *client) (received, room int64) {
	c.in.order.Lock()
	defer c.in.order.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	c.in.owner = cl
	cl.owed = 0
	return c.in.received, c.in.room
}

// feed passes stdin of cl on.
func (x *Execs) feed(c *command, cl *client, p []byte) error {
	c.in.order.Lock()
	defer c.in.order.Unlock()
	x.mu.Lock()
	err := c.in.accept(cl, int64(len(p)))
	over := c.state == ended || !c.in.open
	x.mu.Unlock()
	if err != nil || over || len(p) == 0 {
		return err // what comes after the end is dropped
	}
	return x.tell(c, session.Msg{Type: session.MsgStdin}, p)
}

// accept counts n bytes of cl. The caller holds Execs.mu.
func (in *input) accept(cl *client, n int64) error {
	switch {
	case in.owner != cl:
		return errors.New("another client has taken stdin over")
	case in.open && n > in.room:
		return fmt.Errorf("%d bytes of stdin where there is room for %d", n, in.room)
	}
	if !in.open {
		return nil
	}
	in.room -= n
	in.received += n
	return nil
}

// endInput passes on that nothing more comes.
func (x *Execs) endInput(c *command, cl *client) error {
	c.in.order.Lock()
	defer c.in.order.Unlock()
	x.mu.Lock()
	was := c.in.open && c.in.owner == cl
	if was {
		c.in.open = false
	}
	x.mu.Unlock()
	if !was {
		return nil
	}
	return x.tell(c, session.Msg{Type: session.MsgEOF}, nil)
}

// takeCredit is the guest's word that the command has read n bytes of stdin.
func (x *Execs) takeCredit(c *command, n int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n <= 0 || n > session.Window-c.in.room {
		return fmt.Errorf("%d bytes of credit for stdin with room for %d", n, c.in.room)
	}
	c.in.room += n
	if cl := c.in.owner; cl != nil {
		cl.owed += n
		select {
		case cl.credit <- struct{}{}:
		default:
		}
	}
	return nil
}
