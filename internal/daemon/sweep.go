package daemon

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/scratch"
	"github.com/sbxd/sbxd/session"
	"github.com/sbxd/sbxd/sweep"
)

// sweepEvery is the pause between sweeps of a running daemon. What dead sessions leave
// takes space and nothing else; a look at every mount table takes a moment of CPU.
const sweepEvery = time.Hour

// sweeper is what a sweep changes of a daemon's sessions.
type sweeper struct {
	sweep.Local
	d *Daemon
}

var _ sweep.Host = sweeper{}

// Lock takes the lock of a session unless somebody has it.
func (s sweeper) Lock(id session.ID) (func(), bool) {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // so that nobody is waited for
	unlock, err := s.d.locks.Lock(ended, string(id))
	return unlock, err == nil
}

// Load returns what the daemon knows of a session.
func (s sweeper) Load(id session.ID) (session.Record, error) {
	if r, ok := s.d.byID(id); ok {
		return r, nil
	}
	return s.Local.Load(id)
}

// Save writes a record, and makes it what the daemon knows.
func (s sweeper) Save(r session.Record) error {
	if err := s.Local.Save(r); err != nil {
		return err
	}
	s.d.put(r)
	return nil
}

// sweep removes what dead sessions left, or tells what it would remove.
func (d *Daemon) sweep(ctx context.Context, dryRun bool) (api.Sweep, error) {
	host := sweeper{Local: sweep.Local{Store: d.store, Work: d.workFor}, d: d}
	known := sweep.Known{
		Root: d.store.Path(), System: d.store.System(), Runtime: d.opt.RuntimeDir, Scratch: scratch.Place,
		Records: d.all(), Busy: map[session.ID]bool{},
	}
	for _, r := range known.Records {
		unlock, ok := host.Lock(r.ID)
		if !ok {
			known.Busy[r.ID] = true
			continue
		}
		unlock()
	}
	return sweep.Run(ctx, known, host, dryRun)
}

// workFor does what needs the rights of the uid that owns a directory.
func (d *Daemon) workFor(ctx context.Context, uid int, op string, w session.Work) error {
	c := d.credOf(uid)
	w.Record = session.Record{UID: c.UID, GID: c.GID, Groups: c.Groups}
	return d.opt.Worker.Do(ctx, op, w, nil)
}

// sweepNow sweeps and logs what was done.
func (d *Daemon) sweepNow(ctx context.Context) {
	s, err := d.sweep(ctx, false)
	if err != nil {
		d.log.Error("sweeping", zap.Error(err))
	}
	for _, i := range s.Items {
		if i.Action != string(sweep.Keep) || i.Error != "" {
			d.log.Info("swept", zap.String("op", i.Action), zap.String("kind", i.Kind), zap.String("path", i.What),
				zap.String("reason", i.Reason), zap.String("err", i.Error))
		}
	}
}

// sweepOnATimer sweeps until ctx ends.
func (d *Daemon) sweepOnATimer(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.sweepNow(ctx)
		}
	}
}

func (d *Daemon) postSweep(_ http.ResponseWriter, r *http.Request, c caller) (any, error) {
	var req api.SweepRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if d.uid == 0 && c.UID != 0 {
		return nil, denied("only root may sweep what all users left")
	}
	return d.sweep(r.Context(), req.DryRun)
}
