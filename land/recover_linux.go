package land

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/fault"
)

// Recover finishes what a crash interrupted on a project: a landing that was
// recorded is completed, any other is taken back. It returns the ids of those it
// finished. An error may be an *AttentionError.
func Recover(ctx context.Context, lands, project string, wait time.Duration) ([]string, error) {
	t, err := openTree(project)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return recoverProject(ctx, store{lands}, t, wait)
}

// recoverProject takes the lock only if there is something to do.
func recoverProject(ctx context.Context, s store, t *tree, wait time.Duration) ([]string, error) {
	ids, err := s.unfinished(t.id)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	unlock, err := lockProject(ctx, s, t.id, wait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return recoverLocked(ctx, s, t)
}

func recoverLocked(ctx context.Context, s store, t *tree) ([]string, error) {
	ids, err := s.unfinished(t.id)
	if err != nil {
		return nil, fmt.Errorf("look for interrupted landings: %w", err)
	}
	for i, id := range ids {
		if err := recoverOne(ctx, s, t, id); err != nil {
			return ids[:i], fmt.Errorf("finish interrupted landing %s: %w", id, err)
		}
	}
	return ids, nil
}

func recoverOne(ctx context.Context, s store, t *tree, id string) error {
	l := &landing{ctx: ctx, store: s, tree: t}
	if err := s.readJSON(id, intentFile, &l.intent); err != nil {
		return err
	}
	l.intent.Project = t.path // it may have been moved
	ops, err := s.journal(id)
	if err != nil {
		return err
	}
	rec, err := s.record(id)
	if err != nil {
		return err
	}
	if ops == nil && rec == nil {
		return l.discard()
	}
	l.ops = ops
	if err := l.open(); err != nil {
		return err
	}
	defer l.close()
	if rec != nil {
		return l.finish(rec)
	}
	return l.takeBack(errInterrupted)
}

// errInterrupted is the cause of a recovery.
var errInterrupted = errors.New("the landing was interrupted")

// returnObjects gives the objects back to the landing that this one was to take
// back.
func (l *landing) returnObjects() error {
	return l.moveObjects(l.intent.ID, l.intent.Undoes)
}

// moveObjects moves the objects of one landing to another, where that is not done
// yet.
func (l *landing) moveObjects(from, to string) error {
	if err := fault.Hit("land.undo.objects"); err != nil {
		return err
	}
	if l.intent.Inside {
		own, err := l.tree.dir.Sub(stateDir)
		if err != nil {
			return ignoreGone(err)
		}
		defer own.Close()
		if err := own.RenameNoReplace(from, own, to); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return syncFS(own)
	}
	src, dst := l.store.path(from, objectsDir), l.store.path(to, objectsDir)
	if _, err := os.Lstat(src); err != nil {
		return ignoreGone(err)
	}
	if err := os.Remove(dst); errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
		return nil // they are there, and the empty ones are at src
	}
	if err := os.Rename(src, dst); err != nil {
		return err
	}
	return errors.Join(syncDir(l.store.path(to, "")), syncDir(l.store.path(from, "")))
}
