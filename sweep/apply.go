package sweep

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
)

// Host is what Apply needs of whoever owns the records and may touch a uid's files.
type Host interface {
	// Lock takes the lock of a session without waiting.
	Lock(id session.ID) (unlock func(), ok bool)
	Load(id session.ID) (session.Record, error)
	Save(r session.Record) error
	// Remove removes a directory below the state root with everything in it, with the
	// rights of uid. It must not follow links or enter mounts.
	Remove(ctx context.Context, uid int, path string) error
	// Archive moves a directory to a name that is not taken, making the parent.
	Archive(ctx context.Context, uid int, from, to string) error
}

// Result is an entry and what became of it.
type Result struct {
	Entry
	Err error // nil: done, or kept as planned
}

// errSkipped is the error of an entry that waited for another one.
var errSkipped = errors.New("left alone, because an earlier step for this session did not work")

// killWait is how long a killed process may take to end.
const killWait = 5 * time.Second

// Apply carries a plan out. Directories are removed last, after the mount tables were
// read again. An entry that fails stops only what follows for the same session.
func Apply(ctx context.Context, p Plan, k Known, h Host) []Result {
	a := &applier{ctx: ctx, known: k, host: h, failed: map[string]bool{}}
	out := make([]Result, len(p.Entries))
	var late []int
	for i, e := range p.Entries {
		out[i].Entry = e
		switch {
		case e.Action == Keep:
		case e.Kind == KindDirectory:
			late = append(late, i)
		default:
			out[i] = a.result(e, a.early)
		}
	}
	if len(late) == 0 {
		return out
	}
	used, err := a.lookAgain()
	for _, i := range late {
		if out[i].Err = err; err == nil {
			out[i] = a.result(out[i].Entry, func(e Entry) error { return a.directory(e, used) })
		}
	}
	return out
}

type applier struct {
	ctx    context.Context
	known  Known
	host   Host
	failed map[string]bool
}

// result runs one entry. What somebody holds just now is kept, and that is no error.
func (a *applier) result(e Entry, f func(Entry) error) Result {
	err := a.guarded(e, f)
	var told *api.Error // of a worker
	if errors.Is(err, session.ErrBusy) || errors.As(err, &told) && told.Code == api.ExitBusy {
		e.Action, e.Reason, err = Keep, e.Reason+", but it is busy: "+err.Error(), nil
	}
	return Result{Entry: e, Err: err}
}

// guarded runs one entry under the lock of its session.
func (a *applier) guarded(e Entry, f func(Entry) error) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	group := string(e.Session)
	if group == "" {
		group = e.Path
	}
	if a.failed[group] {
		return errSkipped
	}
	unlock, ok := a.host.Lock(e.Session)
	if !ok {
		return fmt.Errorf("session %s: %w: something is being done with it", e.Session, session.ErrBusy)
	}
	defer unlock()
	err := fault.Hit("sweep." + string(e.Action))
	if err == nil {
		err = f(e)
	}
	if err != nil {
		a.failed[group] = true
	}
	return err
}

func (a *applier) early(e Entry) error {
	switch e.Action {
	case Kill:
		return kill(e.Process)
	case Unmount:
		return detach(e.Path)
	case Stop:
		return a.stop(e)
	case Remove:
		return removeSocket(e.Path)
	}
	return fmt.Errorf("no way to %s a %s", e.Action, e.Kind)
}

func kill(id proc.ID) error {
	err := proc.Kill(id, unix.SIGKILL)
	if errors.Is(err, proc.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return id.Wait(killWait)
}

// detach removes a mount by its name in its real parent: a link that somebody puts on
// the way gives an error. The mount itself is not looked at; one whose server died is
// detached like any other.
func detach(path string) error {
	dir, err := safefs.OpenReal(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	err = mnt.Detach(mnt.Name(dir.Fd()) + "/" + filepath.Base(path))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // not a mountpoint any more
	}
	if err != nil {
		return fmt.Errorf("detach %q: %w", path, err)
	}
	return nil
}

// stop marks a dead session as stopped, unless its record changed since it was read.
func (a *applier) stop(e Entry) error {
	r, err := a.host.Load(e.Session)
	if err != nil {
		return err
	}
	if r.State != e.State {
		return fmt.Errorf("session %s became %s meanwhile", e.Session, r.State)
	}
	if r.Running.Shim.Alive() == proc.Alive {
		return fmt.Errorf("session %s was started meanwhile", e.Session)
	}
	if err := r.Move(session.Stopped); err != nil {
		return err
	}
	r.Reason, r.Stopped = "sweep: "+e.Proof, time.Now().UTC()
	return a.host.Save(r)
}

func removeSocket(path string) error {
	dir, err := safefs.OpenReal(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	name := filepath.Base(path)
	st, err := dir.Lstat(name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Type() != unix.S_IFSOCK {
		return fmt.Errorf("%s is not a socket any more", path)
	}
	if answers(mnt.Name(dir.Fd())+"/"+name) != proc.Dead {
		return fmt.Errorf("somebody listens on %s now", path)
	}
	return dir.Remove(name)
}

// lookAgain reads the tables after the mounts were detached.
func (a *applier) lookAgain() (map[string][]use, error) {
	seen, err := Look(a.ctx, Known{Root: a.known.Root, System: a.known.System, Runtime: a.known.Runtime})
	if err != nil {
		return nil, err
	}
	p := &planner{seen: seen}
	p.indexUses()
	if p.blind {
		return nil, errors.New("our own mount table has lines that cannot be read")
	}
	return p.uses, nil
}

func (a *applier) directory(e Entry, used map[string][]use) error {
	if isScratch(a.known.Scratch, e.Path) {
		if err := unheld(e.Path); err != nil {
			return err
		}
	} else if _, ok := rel(a.known.Root, e.Path); !ok || strings.Contains(e.Path, "/../") {
		return fmt.Errorf("%s is not below the state root", e.Path)
	}
	if u := used[e.Path]; len(u) > 0 {
		return fmt.Errorf("it is in use: %s", u[0])
	}
	switch e.Action {
	case Remove:
		return a.host.Remove(a.ctx, e.UID, e.Path)
	case Archive:
		return a.host.Archive(a.ctx, e.UID, e.Path, e.To)
	}
	return fmt.Errorf("no way to %s a %s", e.Action, e.Kind)
}
