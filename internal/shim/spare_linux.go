package shim

import (
	"bytes"
	"crypto/sha256"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/session"
)

// A start is mostly waiting for two programs to be loaded. So the launcher keeps one
// shim in advance, which keeps one holder in advance; both wait for their orders.

// prestarted is a holder that was cloned before its session was known.
type prestarted struct {
	inner  *inner
	mounts [sha256.Size]byte // of the host's mount table at that moment
}

// prestart clones a holder for a session without network. Failing is no fault: the
// start itself tries again and tells.
func prestart() *prestarted {
	sum, ok := mountsSum()
	if !ok || feature.Off(feature.SpareShim) {
		return nil
	}
	in, err := startHolder(false, nil)
	if err != nil {
		return nil
	}
	return &prestarted{inner: in, mounts: sum}
}

// take returns the waiting holder if it fits: it lives, has its own network namespace, no
// layers, and saw the host's mounts as they are now, since later ones stay invisible
// to it. One that does not fit is ended.
func (p *prestarted) take(openNet bool, layers []*os.File) *inner {
	if p == nil {
		return nil
	}
	sum, ok := mountsSum()
	if !ok || sum != p.mounts || openNet || len(layers) > 0 || p.ended() {
		p.inner.kill()
		return nil
	}
	return p.inner
}

func (p *prestarted) ended() bool {
	select {
	case <-p.inner.ended:
		return true
	default:
		return false
	}
}

func mountsSum() (sum [sha256.Size]byte, ok bool) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	return sha256.Sum256(bytes.TrimSpace(b)), err == nil
}

// takeSpare returns the shim that waits for a session of this user, or nil.
func (l *Launcher) takeSpare(cred session.Cred) *fresh {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.spare
	if s == nil || !sameCred(s.cred, cred) {
		return nil
	}
	l.spare = nil
	return s
}

func sameCred(a, b session.Cred) bool {
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.Groups, b.Groups)
}

// Prepare starts a spare shim for a user unless there is one for somebody. It does not
// wait for it.
func (l *Launcher) Prepare(cred session.Cred) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare != nil || l.closed || feature.Off(feature.SpareShim) {
		return
	}
	if s, err := spawn(cred); err == nil {
		l.spare = s
	}
}

// prepareSoon is Prepare after a session's first command had its time.
func (l *Launcher) prepareSoon(cred session.Cred) {
	time.AfterFunc(spareDelay, func() { l.Prepare(cred) })
}

// Close ends the spare shim; running sessions stay.
func (l *Launcher) Close() {
	l.mu.Lock()
	s := l.spare
	l.closed, l.spare = true, nil
	l.mu.Unlock()
	if s != nil {
		s.end()
	}
}

// end ends a shim that has no session. It gets a moment to end by itself, and with it
// what it has started: a payload whose monitor was killed with the shim has no parent.
func (s *fresh) end() {
	_ = s.conn.Close()
	ended := time.AfterFunc(killTimeout, func() { _ = s.process.Signal(syscall.SIGKILL) })
	defer ended.Stop()
	_, _ = s.process.Wait()
}
