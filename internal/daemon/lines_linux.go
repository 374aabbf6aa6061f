package daemon

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/peer"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// line is a connection to a shim that has been greeted.
type line struct {
	*wire.Conn
	raw net.Conn
}

// lines are connections made in advance, one a shim: greeting takes as long as starting
// a process.
type lines struct {
	mu sync.Mutex // guards by
	by map[proc.ID]line
}

// lineDelay keeps the making of the next line out of the way of a command's begin.
const lineDelay = 20 * time.Millisecond

// connect returns a connection to the shim of rec that nobody else has.
func (d *Daemon) connect(ctx context.Context, rec session.Record) (*wire.Conn, error) {
	l, ok := d.lines.take(rec.Running.Shim)
	if ok && l.up() {
		return l.Conn, nil
	}
	if ok {
		_ = l.Close()
	}
	l, err := d.dial(ctx, rec)
	return l.Conn, err
}

// lineSoon makes a line for the next who connects, unless there is one.
func (d *Daemon) lineSoon(rec session.Record, in time.Duration) {
	time.AfterFunc(in, func() {
		ctx, cancel := context.WithTimeout(d.run, askTimeout)
		defer cancel()
		l, err := d.dial(ctx, rec)
		if err != nil {
			return
		}
		if !d.lines.put(rec.Running.Shim, l) {
			_ = l.Close()
		}
		if rec.Running.Shim.Alive() == proc.Dead { // and watch has come too early
			d.lines.hangUp(rec.Running.Shim)
		}
	})
}

func (s *lines) take(shim proc.ID) (line, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.by[shim]
	delete(s.by, shim)
	return l, ok
}

func (s *lines) put(shim proc.ID, l line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.by[shim]; ok || shim == (proc.ID{}) {
		return false
	}
	s.by[shim] = l
	return true
}

// hangUp closes the line to a shim that has ended.
func (s *lines) hangUp(shim proc.ID) {
	if l, ok := s.take(shim); ok {
		_ = l.Close()
	}
}

// up reports whether the shim is still at the other end; it has nothing to say unasked.
func (l line) up() bool {
	c, ok := l.raw.(syscall.Conn)
	return ok && !peer.Polls(c, unix.POLLIN|unix.POLLRDHUP)
}

// dial opens a connection to the shim of rec and greets it.
func (d *Daemon) dial(ctx context.Context, rec session.Record) (line, error) {
	conn, err := d.opt.Launcher.Dial(ctx, rec, d.shimSocket(rec.ID))
	if err != nil {
		return line{}, err
	}
	if err := conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		_ = conn.Close()
		return line{}, err
	}
	w := wire.New(conn)
	if _, err := wire.Handshake(w, session.Protocol); err != nil {
		_ = conn.Close()
		return line{}, fmt.Errorf("greeting the shim: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close()
		return line{}, err
	}
	return line{w, conn}, nil
}
