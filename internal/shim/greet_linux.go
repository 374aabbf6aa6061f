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
func (s *shim) greet(deadline time.Time) ([]string, error) {
	_ = s.inner.guest.SetDeadline(deadline)
	conn := wire.New(s.inner.guest)
	if _, err := wire.Handshake(conn, session.Protocol); err != nil {
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	var m session.Msg
	if _, err := conn.Read(&m); err != nil {
		return nil, fmt.Errorf("hear from the guest: %w", err)
	}
	if m.Type != session.MsgReady || len(m.Missing) > maxMissing {
		return nil, fmt.Errorf("the guest said %.20q where it should be ready", m.Type)
	}
	if s.record.Network == "open" && (slices.Contains(m.Missing, session.MissingScopes) || slices.Contains(m.Missing, session.MissingLandlock)) {
		return nil, fmt.Errorf("%w: an open network shares the host's abstract sockets, and this kernel's Landlock "+
			"cannot keep a session from them (it needs ABI 6, Linux 6.12); use --network off", session.ErrRefused)
	}
	s.guest = conn
	return m.Missing, s.inner.guest.SetDeadline(time.Time{})
}

// maxMissing is more layers than there are.
const maxMissing = 16
