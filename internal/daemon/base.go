package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/land"
	"github.com/sbxd/sbxd/session"
)

// capturesAtOnce bounds how many projects are read at the same time; captureDelay keeps
// the reading out of the way of a session's first command.
const (
	capturesAtOnce = 2
	captureDelay   = 100 * time.Millisecond
)

// captures are the recordings that are under way or were done by this daemon. One may
// end after the start that it belongs to: what the host changes meanwhile has a later
// ctime and counts as changed (package land).
type captures struct {
	slots chan struct{} // a full one: capturesAtOnce are under way

	mu sync.Mutex // guards the fields below
	by map[session.ID]*capture
}

// capture is one recording.
type capture struct {
	cancel context.CancelFunc
	hurry  func()        // begin at once
	done   chan struct{} // closed when err is there
	err    error
}

// captureSoon records the project of rec as the session's base, in the background,
// unless it is recorded. since is the clock before the session's first command.
func (d *Daemon) captureSoon(rec session.Record, since safefs.Time) {
	d.captures.mu.Lock()
	defer d.captures.mu.Unlock()
	if d.captures.by[rec.ID] != nil || d.hasBase(rec) {
		return
	}
	ctx, cancel := context.WithCancel(d.run)
	begin, hurry := context.WithTimeout(ctx, captureDelay)
	c := &capture{cancel: cancel, hurry: hurry, done: make(chan struct{})}
	d.captures.by[rec.ID] = c
	d.wg.Go(func() {
		defer close(c.done)
		defer cancel()
		<-begin.Done()
		if c.err = d.captureNow(ctx, rec, since); c.err != nil && ctx.Err() == nil {
			d.log.Error("recording a project", zap.String("session", string(rec.ID)), zap.Error(c.err))
		}
	})
}

func (d *Daemon) captureNow(ctx context.Context, rec session.Record, since safefs.Time) error {
	select {
	case d.captures.slots <- struct{}{}:
		defer func() { <-d.captures.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := fault.Hit("base.capture"); err != nil {
		return err
	}
	w := session.Work{Record: rec, Dir: d.store.DataDir(rec.UID, rec.ID), Since: since}
	if err := d.opt.Worker.Do(ctx, session.WorkCapture, w, nil); err != nil {
		return fmt.Errorf("recording the project as it is: %w", err)
	}
	return nil
}

// based returns when the base of rec is recorded: without one nobody can tell what the
// host changed meanwhile. A recording that failed, or that an earlier daemon did not
// finish, is tried again.
func (d *Daemon) based(ctx context.Context, rec session.Record) error {
	var last error
	for range 2 {
		d.captureSoon(rec, stamp(rec.Created))
		d.captures.mu.Lock()
		c := d.captures.by[rec.ID]
		d.captures.mu.Unlock()
		if c == nil {
			return nil // recorded by an earlier daemon
		}
		c.hurry()
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if c.err == nil {
			return nil
		}
		last = c.err
		if !d.forgetCapture(rec.ID, c) {
			return c.err
		}
	}
	return refused("", "the project of session %s could not be recorded as it was at the start: %v", rec.ID, last)
}

// forgetCapture takes a failed recording off the books, so that it is tried again.
func (d *Daemon) forgetCapture(id session.ID, c *capture) bool {
	d.captures.mu.Lock()
	defer d.captures.mu.Unlock()
	if d.captures.by[id] != c {
		return true
	}
	delete(d.captures.by, id)
	return d.run.Err() == nil
}

// dropCapture ends a recording before the session's directory goes.
func (d *Daemon) dropCapture(id session.ID) {
	d.captures.mu.Lock()
	c := d.captures.by[id]
	delete(d.captures.by, id)
	d.captures.mu.Unlock()
	if c != nil {
		c.cancel()
		<-c.done
	}
}

// hasBase reports whether the base of rec is recorded.
func (d *Daemon) hasBase(rec session.Record) bool {
	_, err := os.Lstat(filepath.Join(d.store.DataDir(rec.UID, rec.ID), "project/base", land.ManifestFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// stamp is t as file times are compared.
func stamp(t time.Time) safefs.Time {
	return safefs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}
