package shim

import (
	"fmt"
	"slices"
	"time"

	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// greet waits for the guest's hello and its word that it is ready, and learns which
// layer of the guest's own this host lacks.
func (s *shim) greet(deadline time.Time) error {
	_ = s.inner.guest.SetDeadline(deadline)
	conn := wire.New(s.inner.guest)
	if _, err := wire.Handshake(conn, session.Protocol); err != nil {
		return fmt.Errorf("greet the guest: %w", err)
	}
	var m session.Msg
	if _, err := conn.Read(&m); err != nil {
		return fmt.Errorf("hear from the guest: %w", err)
	}
	if m.Type != session.MsgReady || len(m.Missing) > maxMissing {
		return fmt.Errorf("the guest said %.20q where it should be ready", m.Type)
	}
	s.guest = conn
	s.missing = append(s.missing, m.Missing...)
	return s.inner.guest.SetDeadline(time.Time{})
}

// checkOpen refuses an open network where the host's abstract sockets cannot be kept from
// the session.
func (s *shim) checkOpen() error {
	if s.frame.OpenNet && (slices.Contains(s.missing, session.MissingScopes) || slices.Contains(s.missing, session.MissingLandlock)) {
		return fmt.Errorf("%w: an open network shares the host's abstract sockets, and this kernel's Landlock "+
			"cannot keep a session from them (it needs ABI 6, Linux 6.12); use --network off", session.ErrRefused)
	}
	return nil
}

// maxMissing is more layers than there are.
const maxMissing = 16
