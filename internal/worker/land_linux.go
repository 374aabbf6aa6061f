package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/land"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

// landWait is how long a landing of the same project by somebody else is waited for.
const landWait = 5 * time.Second

// captureNice is the priority of recording a project.
const captureNice = 10

func capture(ctx context.Context, w session.Work) (any, error) {
	// Beside a start, which somebody waits for. Failing only makes that one slower.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, captureNice)
	return nil, land.Capture(ctx, w.Record.Project.Real, filepath.Join(w.Dir, "project/base"), w.Since)
}

// maskPlan is what a session sees, as planned by the policy of today.
func maskPlan(w session.Work) (masks.Plan, error) {
	r := w.Record
	rules, err := w.Policy.RulesFor(r)
	if err != nil {
		return masks.Plan{}, err
	}
	p, err := masks.Make(masks.Input{
		Home: r.Home.Real, HomeSpelled: r.Home.Spelled, Project: r.Project.Real, ProjectSpelled: r.Project.Spelled,
		Base: w.Policy.Base, StateDirs: w.Policy.StateDirs, Rules: rules, HomeMode: w.Policy.HomeMode,
	}, masks.OS{})
	if err != nil {
		return p, fmt.Errorf("%w: %w", session.ErrRefused, err)
	}
	return p, nil
}

// options are those of the project's view, or with home of HOME's, which has no base.
func options(w session.Work, home bool) (land.Options, error) {
	plan, err := maskPlan(w)
	if err != nil {
		return land.Options{}, err
	}
	r := w.Record
	o := land.Options{
		Project: r.Project.Real, Upper: filepath.Join(w.Dir, "project/upper"), Base: filepath.Join(w.Dir, "project/base"),
		Lands: w.Lands, Session: string(r.ID), UID: r.UID, Who: w.Who, Wait: landWait, Hints: true,
	}
	if home {
		if r.Home.Real == r.Project.Real {
			return o, &api.Error{Code: api.ExitUsage, Message: "HOME is the project of this session", Hint: "leave out --home"}
		}
		o.Project, o.Upper, o.Base = r.Home.Real, filepath.Join(w.Dir, "home/upper"), ""
	}
	o.Masked = plan.Hidden(o.Project)
	for _, p := range plan.Patterns {
		if p.View == o.Project {
			o.Patterns = append(o.Patterns, p.Pattern.String())
		}
	}
	for _, p := range plan.Placeholders {
		if p.View == o.Project {
			o.Placeholders = append(o.Placeholders, p.Path)
		}
	}
	return o, nil
}

func diff(ctx context.Context, w session.Work) (any, error) {
	o, err := options(w, w.Home)
	if err != nil {
		return nil, err
	}
	cs, err := land.Scan(ctx, o)
	if err != nil {
		return nil, landError(err)
	}
	d := show(cs, string(w.Record.ID))
	if w.Text {
		var b strings.Builder
		err = land.WritePatch(ctx, &b, cs, o)
		d.Text = b.String()
	}
	return d, err
}

func landNow(ctx context.Context, w session.Work) (any, error) {
	o, err := options(w, false)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.Lands, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of landings: %w", err)
	}
	if w.Land.DryRun {
		cs, err := land.Scan(ctx, o)
		if err != nil {
			return nil, landError(err)
		}
		l := planned(o, cs)
		return l, mayLand(w.Land, cs, l)
	}
	var l api.Landing
	o.Agree = func(cs *land.Changeset) error {
		l = planned(o, cs)
		return mayLand(w.Land, cs, l)
	}
	res, err := land.Apply(ctx, o, w.Land.Expect)
	if conflict := new(land.ConflictError); errors.As(err, &conflict) {
		l = api.Landing{Session: o.Session, Project: o.Project, State: "planned", Findings: land.Findings(&land.Plan{Conflicts: conflict.Conflicts})}
	}
	if err != nil {
		return l, landError(err)
	}
	done := res.Record.API(w.Lands)
	done.Changes, done.Findings = l.Changes, land.Findings(&land.Plan{Notices: res.Notices})
	return done, nil
}

// planned is a landing that was not done yet.
func planned(o land.Options, cs *land.Changeset) api.Landing {
	d := show(cs, o.Session)
	return api.Landing{
		Session: o.Session, Project: o.Project, Changeset: cs.ID, State: "planned", Time: time.Now().UTC(),
		Changes: d.Changes, Dropped: d.Dropped, Findings: d.Findings, Counts: api.Counts(cs.Plan.Count()),
	}
}

// mayLand tells what keeps a plan from being landed: nothing in it, drift from what was
// reviewed, a conflict, or a yes that was not given.
func mayLand(req api.LandRequest, cs *land.Changeset, l api.Landing) error {
	if req.Expect != "" && req.Expect != cs.ID {
		return landError(&land.DriftError{Want: req.Expect, Have: cs.ID})
	}
	if len(cs.Plan.Conflicts) > 0 {
		return landError(&land.ConflictError{Conflicts: cs.Plan.Conflicts})
	}
	if len(l.Changes) == 0 {
		return landError(land.ErrNothing)
	}
	if open := gates(l.Findings, req); open > 0 {
		return &api.Error{
			Code: api.ExitGate, Message: fmt.Sprintf("%d of the findings above want a yes before this lands", open),
			Hint: "look at them, then agree with --yes, or to each with --allow ID",
		}
	}
	if !req.DryRun && !req.Yes && req.Expect == "" {
		return &api.Error{
			Code: api.ExitGate, Message: "nobody has agreed to this changeset",
			Hint: "look at the diff, then name the changeset that was reviewed (expect), or say yes",
		}
	}
	return nil
}

// landError gives an error of package land its exit code.
func landError(err error) error {
	hint := ""
	if c := new(land.ConflictError); errors.As(err, &c) {
		hint = "make both sides agree on these paths, in the project or in the session, then land again"
		if c.Undo {
			hint = "put back what was landed there, or take the rest back by hand"
		}
	}
	for _, k := range []struct {
		err  error
		code int
	}{
		{land.ErrAttention, api.ExitAttention},
		{land.ErrNothing, api.ExitNothing},
		{land.ErrConflict, api.ExitConflict},
		{land.ErrDrift, api.ExitDrift},
		{land.ErrBusy, api.ExitBusy},
		{land.ErrNotFound, api.ExitNotFound},
		{land.ErrNoBase, api.ExitRefused},
		{land.ErrRefused, api.ExitRefused},
	} {
		if errors.Is(err, k.err) {
			return &api.Error{Code: k.code, Message: err.Error(), Hint: hint}
		}
	}
	return err
}

func undo(ctx context.Context, w session.Work) (any, error) {
	res, err := land.Undo(ctx, land.UndoOptions{
		Options: land.Options{Lands: w.Lands, UID: w.Record.UID, Who: w.Who, Wait: landWait},
		ID:      w.Landing, DryRun: w.Undo.DryRun || !w.Undo.Yes,
	})
	if err != nil {
		return nil, landError(err)
	}
	was := res.Undoes
	l := api.Landing{
		Session: was.Session, Project: was.Project, Changeset: was.Changeset, State: "planned",
		Undoes: w.Landing, Time: time.Now().UTC(), Counts: api.Counts(res.Plan.Count()),
	}
	if res.Record != nil {
		l = res.Record.API(w.Lands)
	}
	l.Changes = land.StepsAPI(res.Plan.Ops)
	l.Findings = append(land.Findings(res.Plan), land.Findings(&land.Plan{Notices: res.Notices})...)
	switch {
	case len(res.Plan.Conflicts) > 0:
		return l, landError(&land.ConflictError{Conflicts: res.Plan.Conflicts, Undo: true})
	case res.Record == nil && len(l.Changes) == 0:
		return l, landError(land.ErrNothing)
	case res.Record == nil && !w.Undo.DryRun:
		return l, &api.Error{Code: api.ExitGate, Message: "nobody has agreed to this undo", Hint: "look at it, then say yes"}
	}
	return l, nil
}

// lands lists the landings. One that cannot be read is told in its place.
func lands(_ context.Context, w session.Work) (any, error) {
	records, err := land.List(w.Lands)
	list := []api.Landing{}
	for _, r := range records {
		list = append(list, r.API(w.Lands))
	}
	return list, err
}

// recoverAll finishes what was interrupted on each of the projects. One that cannot be
// reached stops no other.
func recoverAll(ctx context.Context, w session.Work) (any, error) {
	var done []api.Landing
	var errs []error
	for _, p := range w.Projects {
		ids, err := land.Recover(ctx, w.Lands, p, landWait)
		if err != nil {
			errs = append(errs, fmt.Errorf("project %s: %w", p, err))
		}
		for _, id := range ids {
			done = append(done, api.Landing{ID: id, Project: p, State: "recovered"})
		}
	}
	return done, errors.Join(errs...)
}
