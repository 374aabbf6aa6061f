package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"github.com/sbxd/sbxd/session"
)

// erase removes a session for good: first its name goes, in one rename, so that a crash
// leaves what finish takes up; then its data, as its user; then the record.
func (d *Daemon) erase(ctx context.Context, rec session.Record) error {
	d.dropCapture(rec.ID)
	if _, err := d.store.Retire(rec.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cred := rec.Cred()
	if rec.Project.Real == "" { // a torn record: it does not say
		cred = d.credOf(rec.UID)
	}
	return d.finish(ctx, rec.ID, cred)
}

// credOf is who uid is, without a record.
func (d *Daemon) credOf(uid int) session.Cred {
	if d.uid == 0 {
		return known(uid).Cred
	}
	o, err := d.sameUser()
	if err != nil {
		d.log.Error("reading our groups", zap.Error(err))
	}
	return o.Cred
}

// finish removes what is left of a session whose removal was decided.
func (d *Daemon) finish(ctx context.Context, id session.ID, cred session.Cred) error {
	dir := d.store.RetiredData(cred.UID, id)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		w := session.Work{Record: session.Record{UID: cred.UID, GID: cred.GID, Groups: cred.Groups}, Dir: dir}
		if err := d.opt.Worker.Do(ctx, session.WorkRemove, w, nil); err != nil {
			return err
		}
	}
	return d.store.Purge(id)
}
