package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells systemd, where it started us, that we are ready, alive, and ending.
func (d *Daemon) notify(ctx context.Context) error {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("telling systemd that we are ready: %w", err)
	}
	defer daemon.SdNotify(false, daemon.SdNotifyStopping) //nolint:errcheck // it reads it or not
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// The records' lock is what everything passes: a daemon that hangs there is not alive.
			d.all()
			_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		}
	}
}
