// Package land brings what a session changed into the real project, and takes it
// out again.
//
// The one idea: three sides are compared (the base that was recorded when the
// session began, the project as it is now, and the session), and what comes of it
// is a plan, a value that is shown, named by an id, and then done: all of it or
// nothing, also after kill -9 and a power cut. Each step of a plan is one rename
// below a directory descriptor that either takes place or does not; what it took
// out of the project is compared only afterwards, where no writer can reach it,
// and put back if the host had changed it. Undo is a landing of what came out.
//
// It knows project trees, uppers (by package overlay) and the directory of
// landings. It must not know sessions' processes, the API's transport, or who may
// land: the caller asks, pauses the session, and runs this as the project's owner.
// It never runs git or any other program.
package land

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
)

// Scan returns what a session changed and, if it has a base, how that compares
// with the project now. An interrupted landing on the project is finished first.
func Scan(ctx context.Context, o Options) (*Changeset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	t, err := openTree(o.Project)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if o.Base == "" {
		s, err := newScanner(ctx, &o, t, nil)
		if err != nil {
			return nil, err
		}
		defer s.close()
		return s.scan()
	}
	if _, err := recoverProject(ctx, store{o.Lands}, t, o.Wait); err != nil {
		return nil, err
	}
	cs, s, err := compare(ctx, &o, t, nil)
	if err != nil {
		return nil, err
	}
	s.close()
	learn(o.Base, s.learned)
	return cs, nil
}

// newScanner opens a session's upper.
func newScanner(ctx context.Context, o *Options, t *tree, g *stage) (*scanner, error) {
	s := &scanner{ctx: ctx, opt: o, tree: t, stage: g}
	var err error
	if o.Base != "" {
		if s.base, err = loadBase(o.Base); err != nil {
			return nil, err
		}
		if err := t.mustBe(s.base.Root); err != nil {
			return nil, err
		}
	}
	if s.upper, err = safefs.OpenReal(o.Upper); err != nil {
		return nil, fmt.Errorf("open upper of session: %w", err)
	}
	return s, nil
}

func (s *scanner) close() { _ = s.upper.Close() }

// compare scans the session and plans against the project. With a stage, the
// session's files are copied on the way.
func compare(ctx context.Context, o *Options, t *tree, g *stage) (*Changeset, *scanner, error) {
	s, err := newScanner(ctx, o, t, g)
	if err != nil {
		return nil, nil, err
	}
	cs, err := s.scan()
	if err != nil {
		s.close()
		return nil, nil, err
	}
	now, learned, err := observe(ctx, t, cs.Items, cs.Opaque, s.base)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	s.learned = append(s.learned, learned...)
	cs.Plan = MakePlan(o.Project, cs.Items, cs.Opaque, s.base, now)
	cs.Held = append(cs.Held, cs.Plan.Held...)
	var parts map[string]string
	cs.ID, parts = identify(cs.Items, s.base)
	if g == nil && !cs.Empty() {
		remember(o.Base, cs.ID, parts)
	} else if g != nil {
		cs.parts = parts
	}
	return cs, s, nil
}

// Result is a landing that was done.
type Result struct {
	Record  *Record
	Plan    *Plan
	Held    []Held
	Notices []Notice
	Undoes  *Record // of an undo: the landing that is taken back
}

// Apply lands what a session changed. expect is the id of the changeset that was
// reviewed; empty lands whatever is there. Errors are ErrNothing, *ConflictError,
// *DriftError, *RefusedError, *AttentionError and ErrBusy; after each of them but
// *AttentionError the project is as it was.
func Apply(ctx context.Context, o Options, expect string) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Base == "" {
		return nil, &RefusedError{What: "this view", Why: "a HOME never lands", Next: "take the files out with cp"}
	}
	t, err := openTree(o.Project)
	if err != nil {
		return nil, err
	}
	defer t.close()
	s := store{o.Lands}
	unlock, err := lockProject(ctx, s, t.id, o.Wait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := recoverLocked(ctx, s, t); err != nil {
		return nil, err
	}
	inside := !mayReach(s, t)
	res, err := apply(ctx, &o, s, t, expect, inside)
	if errors.Is(err, errElsewhere) && !inside {
		res, err = apply(ctx, &o, s, t, expect, true)
	}
	if errors.Is(err, errElsewhere) {
		return nil, &RefusedError{What: "project " + Quote(o.Project), Why: err.Error(), Next: "land a project that lies on one file system", Err: err}
	}
	if err != nil {
		return nil, err
	}
	if err := pruneProject(s, t.id); err != nil {
		res.Notices = append(res.Notices, Notice{Kind: NotePrune, What: "old landings were not all removed: " + err.Error()})
	}
	return res, nil
}

// apply is one try, with the stage in the state root or inside the project.
func apply(ctx context.Context, o *Options, s store, t *tree, expect string, inside bool) (*Result, error) {
	l, err := begin(ctx, s, t, intent{
		ID: string(session.NewID()), Time: now(), Session: o.Session, UID: o.UID, Who: o.Who,
		Project: o.Project, Root: t.id, Base: o.Base, Inside: inside,
	})
	if err != nil {
		return nil, err
	}
	defer l.close()
	cs, err := l.fill(o, expect)
	if err != nil {
		return nil, errors.Join(err, l.discard())
	}
	if err := l.prepare(); err != nil {
		return nil, errors.Join(err, l.discard())
	}
	rec, err := l.perform()
	if err != nil {
		return nil, err
	}
	res := &Result{Record: rec, Plan: cs.Plan, Held: cs.Held, Notices: append(cs.Plan.Notices, l.late...)}
	return res, l.finish(rec)
}

// fill copies the session's files, plans, and builds what the steps move.
func (l *landing) fill(o *Options, expect string) (*Changeset, error) {
	cs, s, err := compare(l.ctx, o, l.tree, l.stage)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := agreed(o, cs, expect); err != nil {
		return nil, err
	}
	if err := sealPlan(l.ctx, l.tree, cs.Plan); err != nil {
		return nil, err
	}
	learn(o.Base, append(s.learned, sealed(cs.Plan, s.base)...))
	l.ops, l.base, l.intent.Changeset = cs.Plan.Ops, s.base, cs.ID
	if err := l.stage.build(l.tree, l.ops, cs.Items); err != nil {
		return nil, err
	}
	return cs, nil
}

// agreed reports why a changeset is not landed.
func agreed(o *Options, cs *Changeset, expect string) error {
	if expect != "" && expect != cs.ID {
		e := &DriftError{Want: expect, Have: cs.ID}
		if was := shown(o.Base, expect); was != nil {
			e.Delta = delta(was, cs.parts)
		}
		return e
	}
	if len(cs.Plan.Conflicts) > 0 {
		return &ConflictError{Conflicts: cs.Plan.Conflicts}
	}
	if cs.Plan.empty() {
		return ErrNothing
	}
	if o.Agree != nil {
		return o.Agree(cs)
	}
	return nil
}

// lockProject waits a bounded time for the lock of a project.
func lockProject(ctx context.Context, s store, root Root, wait time.Duration) (func(), error) {
	const poll = 20 * time.Millisecond
	deadline := time.Now().Add(wait)
	return s.lock(root, func() error {
		if time.Until(deadline) <= 0 {
			return fmt.Errorf("%w: another landing on this project is under way; try again when it is done", ErrBusy)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(poll, max(time.Until(deadline), time.Millisecond))):
			return nil
		}
	})
}
