package daemon

import (
	"context"
	"errors"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// afterCrash finishes the landing of uid, or its undoing, whose worker ended without a
// word, so that no project stays between old and new until somebody asks for it.
func (d *Daemon) afterCrash(ctx context.Context, err error, uid int) {
	var told *api.Error
	if err != nil && !errors.As(err, &told) {
		d.recoverOf(ctx, uid)
	}
}

// recoverLands finishes the landings that an earlier daemon left unfinished, as each
// user in turn.
func (d *Daemon) recoverLands(ctx context.Context) {
	done := map[int]bool{}
	for _, r := range d.all() {
		if !done[r.UID] {
			done[r.UID] = true
			d.recoverOf(ctx, r.UID)
		}
	}
}

// recoverOf finishes what was interrupted on the projects of uid's sessions.
func (d *Daemon) recoverOf(ctx context.Context, uid int) {
	w := session.Work{Root: d.store.Path(), Lands: d.store.LandsDir(uid)}
	for _, r := range d.all() {
		if p := r.Project.Real; r.UID == uid && p != "" && !slices.Contains(w.Projects, p) {
			w.Projects = append(w.Projects, p)
			w.Record = session.Record{UID: r.UID, GID: r.GID, Groups: r.Groups}
		}
	}
	if _, err := os.Lstat(w.Lands); err != nil || len(w.Projects) == 0 {
		return // it never landed anything
	}
	var done []api.Landing
	if err := d.opt.Worker.Do(ctx, session.WorkRecover, w, &done); err != nil {
		d.log.Error("unfinished landings", zap.Int("uid", uid), zap.Error(err))
	}
	for _, l := range done {
		d.log.Warn("an unfinished landing was ended", zap.String("landing", l.ID))
	}
}
