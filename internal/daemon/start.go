package daemon

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/session"
)

func (d *Daemon) postSession(_ http.ResponseWriter, r *http.Request, c caller) (any, error) {
	var req api.StartRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	rec, policy, err := d.plan(r.Context(), c, req)
	if err != nil {
		return nil, err
	}
	unlock, err := d.locks.Lock(r.Context(), string(rec.ID))
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec, err = d.start(r.Context(), c, rec, policy, req.Env)
	if err != nil {
		return nil, err
	}
	return d.show(rec), nil
}

// plan turns a request into the record of a session that does not exist yet, or tells
// which rule refuses it. Nothing is made.
func (d *Daemon) plan(ctx context.Context, c caller, req api.StartRequest) (rec session.Record, policy session.Policy, err error) {
	rec = session.Record{
		ID: session.NewID(), Name: req.Name, Labels: req.Labels, State: session.Creating,
		Agent: req.Agent, Network: req.Network, Backend: req.Backend,
		Given:    session.Given{Masks: req.Masks, Carves: req.Carves, FinalMasks: req.FinalMasks, ReadOnly: req.ReadOnly},
		EnvNames: session.EnvNames(req.Env), Created: time.Now().UTC(),
	}
	if err := checkRequest(&rec, req); err != nil {
		return rec, policy, err
	}
	own, err := d.ownerFor(c, req.RunAs)
	if err != nil {
		return rec, policy, err
	}
	rec.UID, rec.GID, rec.Groups = own.UID, own.GID, own.Groups
	if req.Parent != "" {
		parent, err := d.find(c, req.Parent)
		if err != nil {
			return rec, policy, err
		}
		rec.Parent = parent.ID
	}
	home := homeOf(c, own, req.Home)
	if err := session.CheckPath("HOME", home); err != nil {
		return rec, policy, err
	}
	if err := session.CheckPath("project", req.Project); err != nil {
		return rec, policy, err
	}
	rec.Project.Spelled, rec.Home.Spelled = req.Project, home
	places, err := d.places(ctx, rec)
	if err != nil {
		return rec, policy, err
	}
	if err := rec.Use(places); err != nil {
		return rec, policy, err
	}
	policy, err = d.policy(ctx, rec)
	return rec, policy, err
}

func checkRequest(rec *session.Record, req api.StartRequest) error {
	if req.Name != "" {
		if err := session.CheckName(req.Name); err != nil {
			return usage("%v", err)
		}
	}
	if err := session.CheckLabels(req.Labels); err != nil {
		return usage("%v", err)
	}
	if err := session.CheckEnv(req.Env); err != nil {
		return usage("%v", err)
	}
	switch req.Network {
	case "":
		rec.Network = "off"
	case "off", "open":
	case "filtered":
		return refused("use --network off", "a filtered network is not built yet")
	default:
		return usage("network %.40q: it is off or open", req.Network)
	}
	switch req.Backend {
	case "":
		rec.Backend = "auto"
	case "auto", session.Kernel, session.Unionfs:
	default:
		return usage("backend %.40q: it is auto, kernel or unionfs", req.Backend)
	}
	return nil
}

// homeOf is the HOME of a session. The caller's own is the session's only when they are
// the same user; root's, for somebody else's session, counts when the passwd file
// knows none.
func homeOf(c caller, own owner, asked string) string {
	if asked == "" || c.UID != own.UID && own.home != "" {
		return own.home
	}
	return asked
}

// places finds out where a session works: here, when we are its user, else by a worker.
func (d *Daemon) places(ctx context.Context, rec session.Record) (p session.Places, err error) {
	w := session.Work{Record: rec, Root: d.store.Path(), Trust: d.store.TrustFile(rec.UID)}
	if rec.UID == d.uid {
		return session.Resolve(w)
	}
	return p, d.opt.Worker.Do(ctx, session.WorkPlaces, w, &p)
}

// start makes the session of rec: record, directories, processes. A step that fails
// takes all before it back, so that no trace is left. The caller holds rec's lock.
func (d *Daemon) start(ctx context.Context, c caller, rec session.Record, policy session.Policy, env []string) (_ session.Record, err error) {
	var back undoStack
	if err := d.claim(rec); err != nil {
		return rec, err
	}
	back.push(func(context.Context) error { d.forget(rec); return nil })
	// The disk takes as long as the processes.
	synced := make(chan error, 1)
	made := beside(func() ([]string, error) {
		if err := d.makeRecord(rec, env, &back); err != nil {
			return nil, err
		}
		d.record(rec, c, "start", "", nil)
		go func() { synced <- d.store.Sync(rec.ID) }()
		return d.makeDirs(ctx, rec, policy)
	})
	defer func() {
		_, _ = made()
		if err != nil {
			err = back.undo(ctx, err)
		}
	}()
	running, err := d.launch(ctx, rec, policy, env, false, made)
	if err != nil {
		return rec, err
	}
	rec.Running, rec.View = running, running.View
	back.push(func(ctx context.Context) error { return d.opt.Launcher.Stop(ctx, rec, d.handle(rec)) })
	if err := <-synced; err != nil {
		return rec, err
	}
	if err := fault.Hit("start.4.running"); err != nil {
		return rec, err
	}
	if err := d.moveSoon(&rec, session.Alive); err != nil {
		return rec, err
	}
	d.watch(rec)
	d.lineSoon(rec, 0)
	return rec, nil
}

// beside runs do at once, and returns the function that waits for what it returns.
func beside[T any](do func() (T, error)) func() (T, error) {
	f := sync.OnceValues(do)
	go func() { _, _ = f() }()
	return f
}

// claim makes rec known, so that its name is taken from now on.
func (d *Daemon) claim(rec session.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rec.Name != "" {
		for _, r := range d.sessions {
			if r.Name == rec.Name && r.UID == rec.UID {
				return &api.Error{
					Code: api.ExitRefused, Message: fmt.Sprintf("the name %q is that of session %s", rec.Name, r.ID),
					Hint: "choose another, or sbxd rm " + rec.Name,
				}
			}
		}
	}
	d.sessions[rec.ID] = rec
	return nil
}

// makeRecord makes the record on disk, which is the session from then on.
func (d *Daemon) makeRecord(rec session.Record, env []string, back *undoStack) error {
	if err := fault.Hit("start.1.record"); err != nil {
		return err
	}
	made, err := d.store.MakeOwner(rec.UID, rec.GID)
	if made {
		// Only an empty one goes: another session may have come meanwhile.
		back.push(func(context.Context) error { _ = os.Remove(d.store.Of(rec.UID)); return nil })
	}
	if err != nil {
		return err
	}
	if err := d.store.Create(rec, env); err != nil {
		return err
	}
	back.push(func(ctx context.Context) error { return d.erase(ctx, rec) })
	return nil
}
