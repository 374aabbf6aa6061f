package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/peer"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// greetTime is how long a client may take to say hello.
const greetTime = 10 * time.Second

// retryAccept is the pause while there is no room for another client.
const retryAccept = 50 * time.Millisecond

// Serve accepts clients of l, the daemon's connections, until l is closed. Each may
// start one command or attach to one, and ask for the rest; a client that goes away
// takes nothing with it.
func (x *Execs) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ECONNABORTED):
			time.Sleep(retryAccept) // until a client has left
			continue
		default:
			return fmt.Errorf("accept a client: %w", err)
		}
		go x.serve(conn)
	}
}

func (x *Execs) serve(conn net.Conn) {
	defer conn.Close()
	if admit(conn) != nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(greetTime))
	c := wire.New(conn)
	if _, err := wire.Handshake(c, session.Protocol); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cl := &client{x: x, conn: c, ctx: ctx, cancel: cancel, credit: make(chan struct{}, 1)}
	if !x.enter(cl) {
		return
	}
	defer x.leave(cl)
	cl.serve()
}

// admit lets root and the session's own user in, and nobody from within a sandbox: he
// has the same uid there, in another user namespace.
func admit(conn net.Conn) error {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("not a unix socket")
	}
	p, err := peer.Of(u)
	if err != nil {
		return err
	}
	// Root's namespace is not ours to look at, and no sandbox has a process of uid 0: the
	// kernel translates ids, and root of another user namespace is somebody else here.
	if p.UID != 0 && (!p.SameUserNS || p.UID != os.Getuid()) {
		return fmt.Errorf("uid %d (pid %d) may not use this session", p.UID, p.Pid)
	}
	return nil
}

// enter registers a client, unless Drain has begun.
func (x *Execs) enter(cl *client) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.clients == nil {
		return false
	}
	x.clients[cl] = struct{}{}
	return true
}

func (x *Execs) leave(cl *client) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.clients, cl)
}

// Drain lets clients take, for at most d, what they have yet to be told, then closes
// their connections. Call it after Run has returned and the listener is closed.
func (x *Execs) Drain(d time.Duration) {
	quiet := make(chan struct{})
	x.mu.Lock()
	if x.quiet = quiet; x.busy == 0 {
		close(quiet)
		x.quiet = nil
	}
	x.mu.Unlock()
	select {
	case <-quiet:
	case <-time.After(d):
	}
	x.mu.Lock()
	left := x.clients
	x.clients = nil
	x.mu.Unlock()
	for cl := range left {
		_ = cl.conn.Close()
	}
}

// toTell counts a client that has something to be told, and told that it was.
func (x *Execs) toTell() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.busy++
}

func (x *Execs) told() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.busy--; x.busy == 0 && x.quiet != nil {
		close(x.quiet)
		x.quiet = nil
	}
}
