package sweep

import (
	"context"
	"fmt"
	"os"

	"github.com/sbxd/sbxd/internal/scratch"
	"github.com/sbxd/sbxd/session"
)

// Local is the Host of a process that holds the lock of the state root, so that no
// daemon works on it: a sweep by hand, or one at the daemon's start.
type Local struct {
	Store *session.Store
	// Work asks a worker with the rights of another uid; a system's state root needs it.
	Work func(ctx context.Context, uid int, op string, w session.Work) error
}

var _ Host = Local{}

// Lock always succeeds: the lock of the state root is enough.
func (Local) Lock(session.ID) (func(), bool) { return func() {}, true }

// Load reads a record.
func (l Local) Load(id session.ID) (session.Record, error) { return l.Store.Load(id) }

// Save writes a record.
func (l Local) Save(r session.Record) error { return l.Store.Save(r) }

// Remove removes a directory below the state root, or one that a probe left elsewhere.
func (l Local) Remove(ctx context.Context, uid int, path string) error {
	return l.as(ctx, uid, session.WorkRemove, session.Work{Dir: path}, func() error { return session.RemoveDir(path) })
}

// Archive moves a directory below the state root to another name there.
func (l Local) Archive(ctx context.Context, uid int, from, to string) error {
	w := session.Work{Dir: from, To: to}
	return l.as(ctx, uid, session.WorkArchive, w, func() error { return session.ArchiveDir(from, to) })
}

// as does something with the rights of uid: here, or by a worker.
func (l Local) as(ctx context.Context, uid int, op string, w session.Work, here func() error) error {
	for _, path := range []string{w.Dir, w.To} {
		if _, ok := rel(l.Store.Path(), path); !ok && path != "" && !isScratch(scratch.Place, path) {
			return fmt.Errorf("%s is not below the state root", path)
		}
	}
	switch {
	case uid == os.Geteuid():
		return here()
	case l.Work == nil:
		return fmt.Errorf("%s belongs to uid %d, and there is no way to act for it", w.Dir, uid)
	}
	return l.Work(ctx, uid, op, w)
}
