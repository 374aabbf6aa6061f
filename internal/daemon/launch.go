package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

// policy reads the host's part of what rec may see, with its agent's profile, and checks
// every rule's text.
func (d *Daemon) policy(ctx context.Context, rec session.Record) (session.Policy, error) {
	var p session.Policy
	if d.opt.Policy != nil {
		var err error
		if p, err = d.opt.Policy(ctx, rec); err != nil {
			return p, err
		}
	}
	for _, dir := range []string{d.store.Path(), d.opt.RuntimeDir} {
		if !slices.Contains(p.StateDirs, dir) {
			p.StateDirs = append(p.StateDirs, dir)
		}
	}
	if rec.Agent != "" {
		if p.Agent == nil {
			a, ok := masks.FindAgent(rec.Agent)
			if !ok {
				return p, usage("there is no profile of an agent %.40q; there is: %s", rec.Agent, strings.Join(masks.AgentNames(), ", "))
			}
			p.Agent = &a
		}
		kept, once := d.store.AgentDirs(rec)
		p.Rules = append(p.Rules, p.Agent.Rules(rec.Home.Real, kept, once)...)
	}
	_, err := p.BackendFor(rec)
	return p, err
}

// handle is what is enough of a Launch to reach or end a session.
func (d *Daemon) handle(rec session.Record) session.Launch {
	return session.Launch{Dir: d.store.DataDir(rec.UID, rec.ID), Socket: d.shimSocket(rec.ID)}
}

// launch starts the processes of rec; the project's base is captured beside them. Before
// anything of the session is touched, made has to be through, which returns warnings.
func (d *Daemon) launch(ctx context.Context, rec session.Record, p session.Policy, env []string, resume bool, made func() ([]string, error)) (session.Running, error) {
	sum, err := p.Sum(rec)
	if err != nil {
		return session.Running{}, err
	}
	if p.Agent != nil { // its own directories are part of the plan
		if _, err := made(); err != nil {
			return session.Running{}, err
		}
	}
	l := d.handle(rec)
	l.Env, l.Policy, l.Resume = env, p, resume
	if l.Backend, err = p.BackendFor(rec); err != nil {
		return session.Running{}, err
	}
	if p.Agent != nil {
		l.Env = append(p.Agent.Environ(rec.Home.Spelled), env...) // the caller's win
	}
	l.Made = func() error {
		if _, err := made(); err != nil {
			return err
		}
		return fault.Hit("start.3.shim")
	}
	running, err := d.opt.Launcher.Start(ctx, rec, l)
	if err != nil {
		return session.Running{}, err
	}
	warnings, err := made()
	if err != nil { // the launcher should have heard of it
		return session.Running{}, errors.Join(err, d.opt.Launcher.Stop(context.WithoutCancel(ctx), rec, l))
	}
	running.Policy = sum
	since := clock() // no command has run: what the project is now is what the session begins with
	if resume {
		since = stamp(rec.Created)
	}
	d.captureSoon(rec, since)
	running.Warnings = append(warnings, running.Warnings...)
	return running, nil
}

// upToDate refuses a command in a session whose policy is not that of today: what a
// running one sees cannot be changed.
func (d *Daemon) upToDate(ctx context.Context, rec session.Record) error {
	if rec.Running.Policy == "" {
		return nil // started by an older version
	}
	p, err := d.policy(ctx, rec)
	if err != nil {
		return err
	}
	sum, err := p.Sum(rec)
	if err != nil {
		return err
	}
	if sum != rec.Running.Policy {
		return refused(fmt.Sprintf("sbxd stop %s && sbxd resume %s", rec.ID, rec.ID),
			"the policy has changed since session %s was started, so nothing new runs in it", rec.ID)
	}
	return nil
}

// makeDirs makes the session's directories as its user.
func (d *Daemon) makeDirs(ctx context.Context, rec session.Record, p session.Policy) (warnings []string, err error) {
	if err := fault.Hit("start.2.dirs"); err != nil {
		return nil, err
	}
	w := session.Work{Record: rec, Dir: d.store.DataDir(rec.UID, rec.ID)}
	if p.Agent != nil {
		kept, once := d.store.AgentDirs(rec)
		w.Own = p.Agent.OwnDirs(rec.Home.Real, kept, once)
	}
	if rec.UID == d.uid {
		return session.Prepare(w)
	}
	return warnings, d.opt.Worker.Do(ctx, session.WorkPrepare, w, &warnings)
}

// clock is the clock that the kernel takes file times from: what is changed after the
// call has a ctime that is not earlier.
func clock() safefs.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return safefs.Time{}
	}
	return safefs.Time{Sec: ts.Sec, Nsec: uint32(ts.Nsec)}
}
