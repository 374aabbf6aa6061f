package land

import (
	"context"
	"errors"
	"fmt"

	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/session"
	"golang.org/x/sys/unix"
)

// UndoOptions names a landing to take back.
type UndoOptions struct {
	Options        // Lands, UID, Who and Wait are used
	ID      string `json:"id"`
	DryRun  bool   `json:"dry_run,omitempty"` // only plan
}

// Undo takes a landing back: each path that still has what was landed gets what it
// had before. An edit that the host made since is a conflict, and then nothing is
// done. The undo is itself a landing, so that undoing it lands again. Errors are
// those of Apply, and ErrNotFound.
func Undo(ctx context.Context, o UndoOptions) (*Result, error) {
	s := store{o.Lands}
	if _, err := session.ParseID(o.ID); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	rec, err := s.record(o.ID)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, o.ID)
	}
	t, err := openTree(rec.Project)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := t.mustBe(rec.Root); err != nil {
		return nil, err
	}
	unlock, err := lockProject(ctx, s, t.id, o.Wait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := recoverLocked(ctx, s, t); err != nil {
		return nil, err
	}
	if rec, err = s.record(o.ID); err != nil || rec == nil {
		return nil, errors.Join(ErrNotFound, err)
	}
	if err := undoable(rec); err != nil {
		return nil, err
	}
	return undo(ctx, &o, s, t, rec)
}

func undoable(r *Record) error {
	switch {
	case r.UndoneBy != "":
		return &RefusedError{What: "landing " + r.ID, Why: "it was undone by " + r.UndoneBy, Next: "sbxd undo " + r.UndoneBy + " lands it again"}
	case r.State != StateLanded:
		return &RefusedError{What: "landing " + r.ID, Why: "it was taken back already; what the host changed meanwhile was left: see its objects"}
	}
	return nil
}

func undo(ctx context.Context, o *UndoOptions, s store, t *tree, rec *Record) (*Result, error) {
	landed, err := s.journal(rec.ID)
	if err != nil {
		return nil, err
	}
	plan, err := planUndo(ctx, t, landed)
	if err != nil {
		return nil, err
	}
	res := &Result{Plan: plan, Undoes: rec}
	switch {
	case o.DryRun:
		return res, nil
	case len(plan.Conflicts) > 0:
		return nil, &ConflictError{Conflicts: plan.Conflicts, Undo: true}
	case plan.empty():
		return nil, ErrNothing
	}
	l, err := begin(ctx, s, t, intent{
		ID: string(session.NewID()), Time: now(), Session: rec.Session, UID: o.UID, Who: o.Who, Project: t.path,
		Root: t.id, Base: rec.Base, Inside: rec.Inside, Changeset: rec.Changeset, Undoes: rec.ID,
	})
	if err != nil {
		return nil, err
	}
	defer l.close()
	l.ops = plan.Ops
	if err := l.bring(); err != nil {
		return nil, errors.Join(err, l.discard())
	}
	if err := l.prepare(); err != nil {
		return nil, errors.Join(err, l.discard())
	}
	if res.Record, err = l.perform(); err != nil {
		return nil, err
	}
	res.Notices = l.late
	return res, l.finish(res.Record)
}

// planUndo turns each step of a landing round, at the same slot.
func planUndo(ctx context.Context, t *tree, landed []Op) (*Plan, error) {
	p := &Plan{}
	for i := range landed {
		was := &landed[i]
		op := Op{Path: was.Path, Kind: Settle}
		if was.Kind != Settle {
			var err error
			if op, err = turn(ctx, t, was, p); err != nil {
				return nil, fmt.Errorf("look at project: %s: %w", Quote(was.Path), err)
			}
		}
		p.Ops = append(p.Ops, op)
	}
	return p, nil
}

// turn plans the inverse of one step against the project as it is now.
func turn(ctx context.Context, t *tree, was *Op, p *Plan) (Op, error) {
	none := Op{Path: was.Path, Kind: Settle}
	there, block, err := treeNow(ctx, t, was.Path)
	if err != nil {
		return none, err
	}
	clash := func(kind, what string) (Op, error) {
		p.Conflicts = append(p.Conflicts, Conflict{Path: was.Path, Kind: kind, What: what})
		return none, nil
	}
	switch {
	case was.Kind == Chmod:
		return turnChmod(was, there, clash)
	case block && was.Kind == Create:
		return none, nil // the host took all of it away
	case block:
		return clash(ConflictParent, "the host removed the directory it belongs in")
	case sameTrees(there, was.Old):
		p.Already = append(p.Already, was.Path)
		return none, nil
	case !sameTrees(there, was.New):
		if len(there) == 0 {
			return clash(ConflictEdit, "the host removed it since it was landed")
		}
		return clash(ConflictContent, "the host changed it since it was landed")
	}
	kinds := map[OpKind]OpKind{Create: Remove, Replace: Replace, Remove: Create}
	return Op{Kind: kinds[was.Kind], Path: was.Path, New: was.Old, Old: there}, nil
}

func turnChmod(was *Op, there []Node, clash func(kind, what string) (Op, error)) (Op, error) {
	landed, old := &was.New[0], &was.Old[0]
	switch {
	case len(there) == 0:
		return clash(ConflictEdit, "the host removed it since it was landed")
	case there[0].Type != landed.Type:
		return clash(ConflictType, "the host made it something else since it was landed")
	case there[0].Mode == old.Mode:
		return Op{Path: was.Path, Kind: Settle}, nil
	case there[0].Mode != landed.Mode:
		return clash(ConflictMode, "the host changed its mode since it was landed")
	case landed.Type == overlay.File && there[0].Nlink > 1:
		return clash(ConflictMode, "the host gave it another name, which would get the mode, too")
	}
	to := there[0]
	to.Mode = old.Mode
	return Op{Kind: Chmod, Path: was.Path, Old: there[:1], New: []Node{to}}, nil
}

// treeNow lists what the project has at p now, with the bytes read. blocked says
// that there is no directory for it.
func treeNow(ctx context.Context, t *tree, p string) (nodes []Node, blocked bool, err error) {
	c := cursor{root: t.dir}
	defer c.close()
	dir, err := c.open(p)
	if err != nil {
		if notHere(err) {
			return nil, true, nil
		}
		return nil, false, err
	}
	nodes, err = nodesAt(ctx, dir, baseOf(p), p, t.stat.Dev)
	if err != nil {
		return nil, false, ignoreGone(err)
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Type != overlay.File {
			continue
		}
		d, err := c.open(n.Path)
		if err == nil {
			n.Digest, err = digestOf(ctx, d, baseOf(n.Path), n)
		}
		if err != nil && !gone(err) && !unreadable(err) && !errors.Is(err, unix.ENOTDIR) {
			return nil, false, err
		}
	}
	return nodes, false, nil
}

// sameTrees reports whether two trees have the same entries: type, mode, bytes and
// target. Where the bytes of either are not known, the kernel's marks must agree.
func sameTrees(a, b []Node) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Path != y.Path || x.Type != y.Type || x.Mount || (x.Type != overlay.Symlink && x.Mode != y.Mode) {
			return false
		}
		if !sameBytes(x, y) && (x.Ino != y.Ino || x.Size != y.Size || x.MTime != y.MTime || (x.Digest.Known() && y.Digest.Known())) {
			return false
		}
	}
	return true
}

// bring looks at the objects that an undo puts back: each must be what the
// landing took out.
func (l *landing) bring() error {
	for i := range l.ops {
		op := &l.ops[i]
		if op.Kind != Create && op.Kind != Replace {
			continue
		}
		ok, seen, err := matches(l.ctx, l.stage.dir, slotName(i), op.New)
		if err != nil {
			return fmt.Errorf("look at the objects of landing %s: %w", l.intent.Undoes, err)
		}
		if !ok {
			return &RefusedError{What: "landing " + l.intent.Undoes, Why: "what it took out for " + Quote(op.Path) + " is not what it was (a program wrote to it, or it was removed)", Next: "look below " + objectsPath(l.store.dir, &l.intent)}
		}
		op.New = seen
	}
	return nil
}

// markUndone notes in the landing that was taken back who did it.
func (l *landing) markUndone() error {
	r, err := l.store.record(l.intent.Undoes)
	if err != nil || r == nil || r.UndoneBy == l.intent.ID {
		return ignoreGone(err)
	}
	r.UndoneBy, r.Bytes = l.intent.ID, 0
	return l.store.writeJSON(l.store.path(r.ID, ""), recordFile, "land.record", r)
}
