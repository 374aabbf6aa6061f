package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// work has a worker of rec's user do op; w holds what op needs beside the session.
func (d *Daemon) work(ctx context.Context, op string, rec session.Record, w session.Work, out any) error {
	if rec.Project.Real == "" {
		return refused("", "session %s is broken: %s", rec.ID, rec.Reason)
	}
	if op == session.WorkLand || op == session.WorkDiff && !w.Home {
		if err := d.based(ctx, rec); err != nil {
			return err
		}
	}
	policy, err := d.policy(ctx, rec)
	if err != nil {
		return err
	}
	w.Record, w.Policy = rec, policy
	w.Root, w.Dir, w.Lands = d.store.Path(), d.store.DataDir(rec.UID, rec.ID), d.store.LandsDir(rec.UID)
	return d.opt.Worker.Do(ctx, op, w, out)
}

func (d *Daemon) getDiff(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	home, err := flag(r, "home")
	text, err2 := flag(r, "text")
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	var diff api.Diff
	if err := d.work(r.Context(), session.WorkDiff, rec, session.Work{Home: home, Text: text}, &diff); err != nil {
		return nil, err
	}
	diff.Session = string(rec.ID)
	if diff.Changes == nil {
		diff.Changes = []api.Change{}
	}
	return diff, nil
}

// postLand lands. It is carried to its end when the caller goes away.
func (d *Daemon) postLand(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	var req api.LandRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	rec, unlock, err := d.lock(r.Context(), rec)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var l api.Landing
	ctx := context.WithoutCancel(r.Context())
	err = d.work(ctx, session.WorkLand, rec, session.Work{Land: req, Who: c.socket}, &l)
	d.afterCrash(ctx, err, rec.UID)
	if !req.DryRun {
		d.record(rec, c, "land", l.ID, err)
	}
	return planned(l, err)
}

// planned is the answer of a landing: beside an error only a plan that says something.
func planned(l api.Landing, err error) (any, error) {
	if err != nil && l.ID == "" && l.Changeset == "" && len(l.Changes) == 0 && len(l.Findings) == 0 {
		return nil, err
	}
	return l, err
}

func (d *Daemon) getExplain(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	path := r.URL.Query().Get("path")
	if err := session.CheckPath("asked", path); err != nil {
		return nil, err
	}
	var e api.Explanation
	if err := d.work(r.Context(), session.WorkExplain, rec, session.Work{Path: path}, &e); err != nil {
		return nil, err
	}
	return e, nil
}

// landers are the users whose landings c may see.
func (d *Daemon) landers(c caller) []owner {
	if d.uid != 0 {
		o, err := d.sameUser()
		if err != nil {
			return nil
		}
		return []owner{o}
	}
	if c.UID != 0 {
		o := known(c.UID)
		o.GID = c.GID
		return []owner{o}
	}
	entries, err := os.ReadDir(d.store.Path())
	if err != nil {
		return nil
	}
	var list []owner
	for _, e := range entries {
		if uid, err := strconv.Atoi(e.Name()); err == nil && uid > 0 {
			list = append(list, known(uid))
		}
	}
	return list
}

func (d *Daemon) landWork(o owner) session.Work {
	return session.Work{
		Record: session.Record{UID: o.UID, GID: o.GID, Groups: o.Groups},
		Root:   d.store.Path(), Lands: d.store.LandsDir(o.UID),
	}
}

func (d *Daemon) getLands(_ http.ResponseWriter, r *http.Request, c caller) (any, error) {
	all := []api.Landing{}
	for _, o := range d.landers(c) {
		var some []api.Landing
		if err := d.opt.Worker.Do(r.Context(), session.WorkLands, d.landWork(o), &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b api.Landing) int { return b.Time.Compare(a.Time) })
	return all, nil
}

// postUndo takes a landing back, as the user who landed.
func (d *Daemon) postUndo(_ http.ResponseWriter, r *http.Request, c caller) (any, error) {
	var req api.UndoRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	id := r.PathValue("landing")
	if _, err := session.ParseID(id); err != nil {
		return nil, noLanding(id)
	}
	ctx := context.WithoutCancel(r.Context())
	for _, o := range d.landers(c) {
		w := d.landWork(o)
		w.Landing, w.Undo, w.Who = id, req, c.socket
		var l api.Landing
		err := d.opt.Worker.Do(ctx, session.WorkUndo, w, &l)
		var told *api.Error
		if errors.As(err, &told) && told.Code == api.ExitNotFound {
			continue
		}
		d.afterCrash(ctx, err, o.UID)
		if rec, ok := d.byID(session.ID(l.Session)); ok && !req.DryRun {
			d.record(rec, c, "undo", id, err)
		}
		return planned(l, err)
	}
	return nil, noLanding(id)
}

func noLanding(id string) error {
	return &api.Error{Code: api.ExitNotFound, Message: "there is no landing " + strconv.QuoteToASCII(id[:min(len(id), 80)]), Hint: "sbxd lands shows yours"}
}

func (d *Daemon) getVersion(_ http.ResponseWriter, _ *http.Request, _ caller) (any, error) {
	v := d.opt.Version
	v.API, v.Pid, v.UID, v.State, v.Socket = api.Version, os.Getpid(), d.uid, d.store.Path(), d.opt.Socket
	return v, nil
}
