package shim

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/session"
)

// A start is mostly waiting for programs to be loaded and for bubblewrap. So the launcher
// keeps one shim in advance, with a sandbox like that of the last start.

// need is what a sandbox has to fit: whose it is, what it looks like, and the host's
// mounts and programs as they were, since later ones stay invisible to it.
type need struct {
	cred  session.Cred
	frame holder.Frame
	host  holder.HostSum
}

func (n need) fits(m need) bool {
	return n.cred.UID == m.cred.UID && n.cred.GID == m.cred.GID && slices.Equal(n.cred.Groups, m.cred.Groups) &&
		n.frame == m.frame && n.host == m.host
}

// needOf is what the sandbox of a session has to be.
func needOf(r session.Record, p session.Policy, findings bwrap.Findings) (need, error) {
	host, err := holder.SumHost()
	if err != nil {
		return need{}, fmt.Errorf("look at the host: %w", err)
	}
	return need{cred: r.Cred(), host: host, frame: holder.Frame{
		UID: r.UID, Bwrap: findings, OpenNet: r.Network == "open",
		TmpSize: or(p.TmpSize, defaultTmp), ShmSize: or(p.ShmSize, defaultShm),
	}}, nil
}

// takeSpare returns the shim that waits for such a session, or nil.
func (l *Launcher) takeSpare(n need) *fresh {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.spare
	if s == nil || !s.need.fits(n) {
		return nil
	}
	l.spare = nil
	return s
}

// prepare starts a spare shim for sessions like n, in the place of one for others. It
// does not wait for it.
func (l *Launcher) prepare(n need) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || feature.Off(feature.SpareShim) {
		return
	}
	if l.spare != nil {
		if l.spare.need.fits(n) {
			return
		}
		go l.spare.end()
		l.spare = nil
	}
	if s, err := spawn(n); err == nil {
		l.spare = s
	}
}

// prepareSoon is prepare after a session's first command had its time.
func (l *Launcher) prepareSoon(n need) {
	time.AfterFunc(spareDelay, func() { l.prepare(n) })
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
	_ = s.link.Close()
	ended := time.AfterFunc(killTimeout, func() { _ = s.process.Signal(syscall.SIGKILL) })
	defer ended.Stop()
	_, _ = s.process.Wait()
}
