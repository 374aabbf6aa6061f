package land

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
)

// landing is one landing, or one undo, from its intent to its record. The caller
// holds the lock of the project.
type landing struct {
	ctx    context.Context
	store  store
	tree   *tree
	intent intent
	stage  *stage
	base   *Manifest // of the session, if it was read
	ops    []Op
	late   []Notice
}

// begin makes the directory of a new landing and its stage.
func begin(ctx context.Context, s store, t *tree, in intent) (*landing, error) {
	l := &landing{ctx: ctx, store: s, tree: t, intent: in}
	if err := s.create(&l.intent); err != nil {
		return nil, fmt.Errorf("begin landing: %w", err)
	}
	var err error
	if in.Undoes != "" {
		err = l.moveObjects(in.Undoes, in.ID)
	}
	if err == nil {
		err = l.open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin landing: %w", err), l.discard())
	}
	return l, nil
}

// open opens the directory of the staged objects; inside a project it is made.
func (l *landing) open() error {
	if !l.intent.Inside {
		dir, err := safefs.OpenDir(l.store.path(l.intent.ID, objectsDir))
		if err != nil {
			return err
		}
		l.stage = &stage{dir: dir}
		return nil
	}
	if err := makeStateDir(l.tree); err != nil {
		return err
	}
	own, err := l.tree.dir.Sub(stateDir)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := own.Mkdir(l.intent.ID, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := own.Sub(l.intent.ID)
	if err != nil {
		return err
	}
	l.stage = &stage{dir: dir}
	return nil
}

// prepare makes all that is staged durable, and writes down the steps.
func (l *landing) prepare() error {
	if err := fault.Hit("land.stage.sync"); err != nil {
		return err
	}
	if err := syncFS(l.stage.dir); err != nil {
		return fmt.Errorf("sync stage: %w", err)
	}
	if err := writeFile(l.store.path(l.intent.ID, ""), journalFile, "land.journal", encodeOps(l.ops)); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// perform does the steps, or takes all of them back. base is the base that the
// plan was made with, if it is at hand.
func (l *landing) perform() (*Record, error) {
	a := &applier{ctx: l.ctx, tree: l.tree, stage: l.stage.dir, ops: l.ops}
	err := a.run()
	if err == nil {
		err = l.sync("land.apply.sync")
	}
	if err != nil {
		return nil, l.rollback(err)
	}
	r := &Record{intent: l.intent, State: StateLanded, Counts: (&Plan{Ops: l.ops}).Count(), Bytes: bytesOf(a.out)}
	if err := l.store.writeJSON(l.store.path(l.intent.ID, ""), recordFile, "land.record", r); err != nil {
		// Whether the name became durable is not known. What is on the disk decides.
		if have, e := l.store.record(l.intent.ID); e != nil || have == nil {
			return nil, l.rollback(errors.Join(fmt.Errorf("write record: %w", err), e))
		}
	}
	l.ctx = context.WithoutCancel(l.ctx) // what follows is not to be given up
	l.noticeLate(a)
	return r, nil
}

// noticeLate looks for a writer that had a file open from before and wrote to it
// after the landing was done. Its bytes lie among the objects.
func (l *landing) noticeLate(a *applier) {
	for i := range l.ops {
		if len(a.out[i]) == 0 {
			continue
		}
		still, err := settled(l.ctx, l.stage.dir, slotName(i), a.out[i])
		if err == nil && !still {
			l.late = append(l.late, Notice{Path: l.ops[i].Path, Kind: NoteLate, What: "a program of the host still wrote to the old file; its bytes are in " + objectsPath(l.store.dir, &l.intent) + "/" + slotName(i)})
		}
	}
}

// bytesOf is what the objects that came out take.
func bytesOf(out [][]Node) int64 {
	var n int64
	for _, nodes := range out {
		for i := range nodes {
			n += nodes[i].Size
		}
	}
	return n
}

func (l *landing) sync(op string) error {
	if err := fault.Hit(op); err != nil {
		return err
	}
	if err := syncFS(l.tree.dir); err != nil {
		return fmt.Errorf("sync project: %w", err)
	}
	return nil
}

// rollback takes back all steps and ends the landing. It returns cause, with what
// went wrong on the way, or an *AttentionError if the host was in the way.
func (l *landing) rollback(cause error) error {
	err := l.takeBack(cause)
	switch att := new(AttentionError); {
	case err == nil:
		return cause
	case errors.As(err, &att):
		return err
	}
	return errors.Join(cause, err)
}

// takeBack is rollback that returns nil when all is as it was.
func (l *landing) takeBack(cause error) error {
	ctx := context.WithoutCancel(l.ctx) // half a landing is worse than a slow one
	r := &reverter{ctx: ctx, tree: l.tree, stage: l.stage.dir}
	if err := r.all(l.ops); err != nil {
		return fmt.Errorf("landing %s is not taken back yet, any further command on the project tries again: %w", l.intent.ID, err)
	}
	if err := l.sync("land.revert.sync"); err != nil {
		return err
	}
	if len(r.left) > 0 {
		return l.attention(r, cause)
	}
	return l.discard()
}

// attention keeps what could not go back to its place.
func (l *landing) attention(r *reverter, cause error) error {
	rec := &Record{intent: l.intent, State: StateAttention, Left: r.left, Done: true}
	if err := l.store.writeJSON(l.store.path(l.intent.ID, ""), recordFile, "land.record", rec); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return &AttentionError{ID: l.intent.ID, Left: r.left, Kept: objectsPath(l.store.dir, &l.intent), Cause: cause}
}

// discard removes a landing of which nothing is in the project.
func (l *landing) discard() error {
	if l.stage != nil {
		_ = l.stage.dir.Close()
		l.stage = nil
	}
	if l.intent.Undoes != "" {
		if err := l.returnObjects(); err != nil {
			return fmt.Errorf("give back the objects of landing %s: %w", l.intent.Undoes, err)
		}
	} else if l.intent.Inside {
		if err := removeInside(l.tree, l.intent.ID); err != nil {
			return fmt.Errorf("remove stage: %w", err)
		}
	}
	if err := l.store.remove(l.intent.ID); err != nil {
		return fmt.Errorf("remove landing %s: %w", l.intent.ID, err)
	}
	return nil
}

// finish does what follows a landing. It may be done again after a crash.
func (l *landing) finish(r *Record) error {
	if err := advance(l.ctx, l.tree, l.intent.Base, l.base, l.ops); err != nil {
		return fmt.Errorf("landing %s is done, but its session's base did not follow: %w", l.intent.ID, err)
	}
	if l.intent.Undoes != "" {
		if err := l.markUndone(); err != nil {
			return fmt.Errorf("mark landing %s as undone: %w", l.intent.Undoes, err)
		}
	}
	if err := l.tidy(); err != nil {
		return fmt.Errorf("tidy stage: %w", err)
	}
	r.Done = true
	if err := l.store.writeJSON(l.store.path(l.intent.ID, ""), recordFile, "land.record", r); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// tidy removes what is no object of a step.
func (l *landing) tidy() error {
	slots := make(map[string]bool, len(l.ops))
	for i := range l.ops {
		if k := l.ops[i].Kind; k == Replace || k == Remove {
			slots[slotName(i)] = true
		}
	}
	entries, err := l.stage.dir.ReadDir("")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slots[e.Name] {
			continue
		}
		if err := fault.Hit("land.stage.tidy"); err != nil {
			return err
		}
		if err := l.stage.dir.RemoveAll(e.Name); err != nil {
			return err
		}
	}
	return nil
}

func (l *landing) close() {
	if l.stage != nil {
		_ = l.stage.dir.Close()
	}
}

// now is the time of a landing.
func now() time.Time { return time.Now().UTC() }
