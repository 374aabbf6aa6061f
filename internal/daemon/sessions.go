package daemon

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// show is what is told of a session without asking anybody.
func (d *Daemon) show(r session.Record) api.Session {
	s := api.Session{
		ID: string(r.ID), Name: r.Name, Labels: r.Labels, Parent: string(r.Parent), State: string(r.State), Reason: r.Reason,
		UID: r.UID, Project: r.Project.Spelled, Home: r.Home.Spelled, Agent: r.Agent, Backend: r.View, Network: r.Network,
		Created: r.Created, Started: r.Started, Stopped: r.Stopped, Missing: r.Running.Missing, Warnings: slices.Concat(r.Notes, r.Running.Warnings),
		Dir: d.store.DataDir(r.UID, r.ID), File: d.store.File(r.ID), EnvNames: r.EnvNames,
	}
	if s.Backend == "" {
		s.Backend = r.Backend
	}
	if r.State.Live() {
		for name, id := range map[string]proc.ID{"shim": r.Running.Shim, "bwrap": r.Running.Bwrap, "guest": r.Running.Guest} {
			if id.Pid == 0 {
				continue
			}
			if s.Pids == nil {
				s.Pids = map[string]int{}
			}
			s.Pids[name] = id.Pid
		}
	}
	return s
}

func (d *Daemon) getSessions(_ http.ResponseWriter, r *http.Request, c caller) (any, error) {
	recs := d.visible(c)
	list := make([]api.Session, len(recs))
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for i, rec := range recs {
		list[i] = d.show(rec)
		g.Go(func() error { d.count(r.Context(), rec, &list[i]); return nil })
	}
	return list, g.Wait()
}

// askedAtOnce bounds how many shims a listing asks at the same time: each takes two of
// our descriptors.
const askedAtOnce = 16

// count adds to s what only the shim of rec knows.
func (d *Daemon) count(ctx context.Context, rec session.Record, s *api.Session) {
	if rec.State != session.Alive {
		return
	}
	st, err := d.status(ctx, rec)
	if err != nil {
		s.Warnings = append(s.Warnings, "its shim does not answer: "+err.Error())
		return
	}
	s.Commands = st.Commands
	if st.LogError != "" {
		s.Warnings = append(s.Warnings, "the output log takes no more: "+st.LogError)
	}
}

// Patience of a status with its parts: what does not answer in time is left out.
const (
	askTimeout  = 2 * time.Second
	diffTimeout = 30 * time.Second
)

func (d *Daemon) getSession(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	s := d.show(rec)
	d.count(r.Context(), rec, &s)
	if n, err := d.unlanded(r.Context(), rec); err == nil {
		s.Unlanded = &n
	} else if rec.Project.Real != "" {
		s.Warnings = append(s.Warnings, "its changes cannot be read: "+err.Error())
	}
	return s, nil
}

// unlanded counts the entries of a session's changeset.
func (d *Daemon) unlanded(ctx context.Context, rec session.Record) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, diffTimeout)
	defer cancel()
	var diff api.Diff
	if err := d.work(ctx, session.WorkDiff, rec, session.Work{}, &diff); err != nil {
		return 0, err
	}
	return len(diff.Changes), nil
}

func (d *Daemon) postStop(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	if rec.State == session.Stopped || rec.State == session.Archived {
		return d.show(rec), nil
	}
	err := d.stop(context.WithoutCancel(r.Context()), &rec)
	d.record(rec, c, "stop", "", err)
	if err != nil {
		return nil, err
	}
	return d.show(rec), nil
}

// stop ends the processes of rec. The caller holds its lock.
func (d *Daemon) stop(ctx context.Context, rec *session.Record) error {
	if d.store.Torn(rec.ID) {
		// Nothing can be written; what its socket leads to is ended all the same.
		return d.opt.Launcher.Stop(ctx, *rec, d.handle(*rec))
	}
	if rec.State != session.Stopping {
		if err := d.move(rec, session.Stopping, ""); err != nil {
			return err
		}
	}
	if err := d.opt.Launcher.Stop(ctx, *rec, d.handle(*rec)); err != nil {
		why := fmt.Sprintf("stopping it: %v", err)
		if merr := d.move(rec, session.Broken, why); merr != nil {
			return merr
		}
		return err
	}
	return d.move(rec, session.Stopped, "")
}

func (d *Daemon) postResume(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	err := d.resume(r.Context(), &rec)
	d.record(rec, c, "resume", "", err)
	if err != nil {
		return nil, err
	}
	return d.show(rec), nil
}

// resume starts a stopped session on its work. HOME and project have to be the very
// directories that they were. The caller holds its lock.
func (d *Daemon) resume(ctx context.Context, rec *session.Record) error {
	if d.store.Torn(rec.ID) {
		return refused("", "session %s is broken: %s", rec.ID, rec.Reason)
	}
	switch rec.State {
	case session.Stopped:
	case session.Alive:
		return refused("sbxd exec "+string(rec.ID)+" -- COMMAND", "session %s is running already", rec.ID)
	default:
		next := *rec
		return next.Move(session.Creating)
	}
	places, err := d.places(ctx, *rec)
	if err != nil {
		return err
	}
	if !places.Project.Same(rec.Project) || !places.Home.Same(rec.Home) || places.Project.Real != rec.Project.Real {
		return refused("start a new session; sbxd diff still shows the work of this one",
			"the project or HOME of session %s is not the directory it was", rec.ID)
	}
	if err := rec.Use(places); err != nil {
		return err
	}
	env, err := d.store.Env(rec.ID)
	if err != nil {
		return err
	}
	policy, err := d.policy(ctx, *rec)
	if err != nil {
		return err
	}
	before := rec.Reason
	if err := d.move(rec, session.Creating, ""); err != nil {
		return err
	}
	made := beside(func() ([]string, error) { return d.makeDirs(ctx, *rec, policy) })
	running, err := d.launch(ctx, *rec, policy, env, true, made)
	_, _ = made()
	if err != nil {
		return undoStack{func(context.Context) error { return d.move(rec, session.Stopped, before) }}.undo(ctx, err)
	}
	rec.Running, rec.View = running, running.View
	if err := d.moveSoon(rec, session.Alive); err != nil {
		return undoStack{
			func(context.Context) error { return d.move(rec, session.Stopped, before) },
			func(ctx context.Context) error { return d.opt.Launcher.Stop(ctx, *rec, d.handle(*rec)) },
		}.undo(ctx, err)
	}
	d.watch(*rec)
	d.lineSoon(*rec, 0)
	return nil
}

func (d *Daemon) deleteSession(_ http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	discard, err := flag(r, "discard")
	if err != nil {
		return nil, err
	}
	return nil, d.remove(context.WithoutCancel(r.Context()), c, rec, discard)
}

// remove stops a session and removes it. What it has not landed goes only when that was
// said. The caller holds its lock.
func (d *Daemon) remove(ctx context.Context, c caller, rec session.Record, discard bool) error {
	old, err := d.store.Retired()
	if err != nil {
		return err
	}
	if slices.Contains(old, rec.ID) { // decided before, and it did not come to its end
		return d.gone(ctx, rec)
	}
	runs := rec.State.Live() || rec.State == session.Broken
	if !discard {
		if err := d.nothingUnlanded(ctx, rec); err != nil {
			return err // and it runs on
		}
	}
	if runs {
		if err := d.stop(ctx, &rec); err != nil && !discard {
			return err
		}
	}
	if runs && !discard { // it may have gone on meanwhile
		if err := d.nothingUnlanded(ctx, rec); err != nil {
			return err
		}
	}
	d.record(rec, c, "remove", fmt.Sprintf("discard=%v", discard), nil)
	return d.gone(ctx, rec)
}

func (d *Daemon) gone(ctx context.Context, rec session.Record) error {
	if err := d.erase(ctx, rec); err != nil {
		return err
	}
	d.forget(rec)
	return nil
}

func (d *Daemon) nothingUnlanded(ctx context.Context, rec session.Record) error {
	hint := fmt.Sprintf("sbxd land %s, or sbxd rm --discard %s to lose it", rec.ID, rec.ID)
	n, err := d.unlanded(ctx, rec)
	if err != nil {
		return &api.Error{
			Code: api.ExitGate, Hint: fmt.Sprintf("sbxd rm --discard %s removes it all the same", rec.ID),
			Message: fmt.Sprintf("whether session %s has unlanded work cannot be told: %v", rec.ID, err),
		}
	}
	if n > 0 {
		return &api.Error{Code: api.ExitGate, Message: fmt.Sprintf("session %s has %s", rec.ID, many(n, "unlanded change")), Hint: hint}
	}
	return nil
}

// many says how many of what there are.
func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
