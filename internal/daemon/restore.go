package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
)

// atOnce is how many sessions are taken up at the same time: each takes a connection
// to its shim and perhaps the end of some processes.
const atOnce = 16

// dying is how long a process that was killed may still be seen. A shim that does not
// answer is not called broken before.
const dying = 2 * time.Second

// restore takes up what an earlier daemon left: removals that were decided, starts that
// were under way, sessions that run. One bad session stops nothing else.
func (d *Daemon) restore(ctx context.Context) {
	d.finishRemovals(ctx)
	all, err := d.store.All()
	if err != nil {
		d.log.Error("reading the records", zap.Error(err))
	}
	for _, r := range all {
		d.mu.Lock()
		d.sessions[r.ID] = r
		d.mu.Unlock()
		if d.store.Torn(r.ID) {
			d.log.Error("a record is torn", zap.String("session", string(r.ID)), zap.String("reason", r.Reason))
		}
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, r := range all {
		g.Go(func() error {
			if err := d.takeUp(ctx, r); err != nil {
				d.log.Error("taking up a session", zap.String("session", string(r.ID)), zap.Error(err))
			}
			return nil
		})
	}
	_ = g.Wait()
	d.recoverLands(ctx)
	d.sweepNow(ctx)
}

func (d *Daemon) finishRemovals(ctx context.Context) {
	ids, err := d.store.Retired()
	for _, id := range ids {
		err = errors.Join(err, d.finish(ctx, id, d.credOf(d.store.Owner(id))))
	}
	if err != nil {
		d.log.Error("finishing removals", zap.Error(err))
	}
}

// takeUp brings one record and the host together.
func (d *Daemon) takeUp(ctx context.Context, rec session.Record) error {
	if d.store.Torn(rec.ID) || !rec.State.Live() {
		return nil
	}
	unlock, err := d.locks.Lock(ctx, string(rec.ID))
	if err != nil {
		return err
	}
	defer unlock()
	switch rec.State {
	case session.Creating:
		return d.takeBack(ctx, rec)
	case session.Stopping:
		return d.stop(ctx, &rec)
	}
	if why := rec.Lost(d.boot); why != "" {
		return d.lost(ctx, &rec, why)
	}
	conn, err := d.connect(ctx, rec)
	if err == nil {
		conn.Close()
		d.watch(rec)
		d.put(rec)
		return nil
	}
	if rec.Running.Shim.Wait(dying) == nil {
		return d.lost(ctx, &rec, "its shim ended")
	}
	return d.move(&rec, session.Broken, fmt.Sprintf("its shim lives and does not answer: %v; sbxd stop %s ends it", err, rec.ID))
}

// takeBack undoes a start that was under way when the daemon ended. A first start
// leaves no trace; a resume leaves the session stopped.
func (d *Daemon) takeBack(ctx context.Context, rec session.Record) error {
	if err := d.opt.Launcher.Stop(ctx, rec, d.handle(rec)); err != nil {
		return errors.Join(err, d.move(&rec, session.Broken, fmt.Sprintf("its start was interrupted, and ending it: %v", err)))
	}
	if !rec.Started.IsZero() {
		return d.move(&rec, session.Stopped, "its resume was interrupted")
	}
	if err := d.erase(ctx, rec); err != nil {
		return err
	}
	d.forget(rec)
	return nil
}

// lost records that a session's processes are gone, and removes what is left of them.
func (d *Daemon) lost(ctx context.Context, rec *session.Record, why string) error {
	why = cmp.Or(d.ended(*rec), why)
	if err := d.opt.Launcher.Stop(ctx, *rec, d.handle(*rec)); err != nil {
		return errors.Join(err, d.move(rec, session.Broken, fmt.Sprintf("%s, and ending what was left: %v", why, err)))
	}
	d.record(*rec, d.self(), "lost", why, nil)
	return d.move(rec, session.Stopped, why)
}

// ended is what the shim of rec said when it ended the session by itself, or "". The
// file is the user's: one link, regular, bounded, and one printable line of it.
func (d *Daemon) ended(rec session.Record) string {
	dir, err := safefs.OpenReal(d.store.DataDir(rec.UID, rec.ID))
	if err != nil {
		return ""
	}
	defer dir.Close()
	text, err := dir.ReadRegular(session.EndedFile, session.MaxMessage)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
}
