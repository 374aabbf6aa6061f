package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// Stop ends every process of r. Of a record that names none, because it is torn or its
// start was interrupted, the socket may still lead to a shim.
func (l *Launcher) Stop(ctx context.Context, r session.Record, launch session.Launch) error {
	if r.Running.Shim == (proc.ID{}) {
		return l.stopUnknown(ctx, r, launch.Socket)
	}
	patience := time.Duration(0)
	if err := l.ask(ctx, r, launch.Socket); err == nil {
		patience = killTimeout // it said that everything ended; let it exit by itself
	}
	for _, id := range []proc.ID{r.Running.Shim, r.Running.Bwrap, r.Running.Guest} {
		if err := ensureGone(id, patience); err != nil {
			return err
		}
	}
	_ = os.Remove(launch.Socket)
	return nil
}

// stopUnknown ends what the socket leads to. A shim whose daemon died while it was
// starting ends by itself, unless it had answered already; either way the kernel refuses
// a connection as soon as no process has the socket.
func (l *Launcher) stopUnknown(ctx context.Context, r session.Record, socket string) error {
	const pause = 10 * time.Millisecond
	for end := time.Now().Add(startTimeout); ; time.Sleep(pause) {
		err := l.ask(ctx, r, socket)
		switch {
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
			_ = os.Remove(socket)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("somebody has the socket %s and does not end", socket)
		}
	}
}

// ask lets the shim end its session and waits for its word.
func (l *Launcher) ask(ctx context.Context, r session.Record, socket string) error {
	conn, err := l.Dial(ctx, r, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(stopGrace + killTimeout))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := wire.New(conn)
	if _, err := wire.Handshake(c, session.Protocol); err != nil {
		return err
	}
	if err := c.Write(session.Msg{Type: session.MsgStop, Grace: stopGrace}, nil); err != nil {
		return err
	}
	for {
		var m session.Msg
		if _, err := c.Read(&m); err != nil {
			return err
		}
		switch m.Type {
		case session.MsgOK:
			return nil
		case session.MsgError:
			return errors.New(m.Message)
		}
	}
}

// ensureGone returns when the process that id names has ended: it gets patience to end
// by itself and is killed then, if it provably is that process.
func ensureGone(id proc.ID, patience time.Duration) error {
	if id == (proc.ID{}) || id.Wait(patience) == nil {
		return nil
	}
	if id.Alive() == proc.Unknown {
		return fmt.Errorf("process %d cannot be looked at: whether it is the session's is unknown, so it is kept", id.Pid)
	}
	if err := proc.Kill(id, unix.SIGKILL); err != nil && !errors.Is(err, proc.ErrGone) {
		return fmt.Errorf("end process %d: %w", id.Pid, err)
	}
	if err := id.Wait(killTimeout); err != nil {
		return fmt.Errorf("process %d does not end after SIGKILL: %w", id.Pid, err)
	}
	return nil
}
