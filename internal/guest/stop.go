package guest

import (
	"syscall"
	"time"
)

// Bounds of the end. Between SIGKILL and the end of the process there is nothing to wait
// for but the kernel; after it, only for the shim to take the last output.
const (
	killTime  = time.Second
	flushTime = 2 * time.Second
)

// stop ends every process: SIGTERM, and after the grace SIGKILL. Then it closes the
// connection, which ends Main and, by the end of pid 1, whatever still forks.
func (g *guest) stop(grace time.Duration) {
	if !g.closeDoor() {
		return
	}
	g.askToEnd()
	if !g.emptyWithin(grace) {
		_ = syscall.Kill(-1, syscall.SIGKILL) // all but this process (kill(2))
		g.emptyWithin(killTime)
	}
	told := make(chan struct{})
	go func() { g.commands.Wait(); close(told) }()
	select {
	case <-told:
	case <-time.After(flushTime):
	}
	_ = g.conn.Close()
}

// closeDoor lets no command start any more, and reports whether it was open.
func (g *guest) closeDoor() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := !g.stopping
	g.stopping = true
	return was
}

// askToEnd hangs up the terminals, since an interactive shell ignores SIGTERM, and wakes
// what is stopped.
func (g *guest) askToEnd() {
	g.mu.Lock()
	for _, c := range g.byID {
		if c.run.TTY {
			c.signal(syscall.SIGHUP)
		}
	}
	g.mu.Unlock()
	_ = syscall.Kill(-1, syscall.SIGTERM)
	_ = syscall.Kill(-1, syscall.SIGCONT)
}

// emptyWithin reports whether the last process ended within d.
func (g *guest) emptyWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.none:
		return true
	case <-t.C:
		return false
	}
}
