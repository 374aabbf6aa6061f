package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// watch notices the end of rec's shim, and then records that the session is stopped.
func (d *Daemon) watch(rec session.Record) {
	d.wg.Go(func() {
		err := waitEnd(d.run, rec.Running.Shim)
		d.lines.hangUp(rec.Running.Shim)
		if err != nil {
			return // the daemon ends
		}
		unlock, err := d.locks.Lock(d.run, string(rec.ID))
		if err != nil {
			return
		}
		defer unlock()
		now, ok := d.byID(rec.ID)
		if !ok || now.Running.Shim != rec.Running.Shim || now.State != session.Alive && now.State != session.Frozen {
			return // somebody stopped it, and perhaps started it again
		}
		if err := d.lost(context.WithoutCancel(d.run), &now, "its shim ended"); err != nil {
			d.log.Error("a session ended", zap.String("session", string(rec.ID)), zap.Error(err))
		}
	})
}

// pollEvery is how often a process is looked at where pidfds are not to be had.
const pollEvery = time.Second

// waitEnd returns nil when the process has ended, or ctx's cause. It keeps no thread:
// a pidfd becomes readable then, and Go's poller waits for that.
func waitEnd(ctx context.Context, id proc.ID) error {
	fd, err := -1, error(unix.ENOSYS)
	if !feature.Off(feature.Pidfd) {
		fd, err = unix.PidfdOpen(id.Pid, unix.PIDFD_NONBLOCK)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return pollEnd(ctx, id)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if id.Alive() == proc.Dead {
		return nil // the descriptor is of whoever has the number now
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return pollEnd(ctx, id)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n == 1
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return pollEnd(ctx, id)
	}
	return nil
}

func pollEnd(ctx context.Context, id proc.ID) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for id.Alive() != proc.Dead {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
