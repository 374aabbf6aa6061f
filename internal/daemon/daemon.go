// Package daemon is sbxd's control plane: it keeps the records, answers the HTTP
// interface on a unix socket, and asks others to do the rest: a launcher for the
// processes of a session, a worker for everything that touches a user's files. It may
// be killed at any time; what it knew is on disk, and what it started runs on.
//
// It knows who may ask for what, and in which order a session is made and unmade. It
// must not open a user's file, know how a view is mounted, or keep a value of an
// environment variable anywhere but in the session's own file.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/keylock"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// Worker does what touches a user's trees, in a process with the rights of w's owner.
// A failed operation may answer as well.
type Worker interface {
	Do(ctx context.Context, op string, w session.Work, out any) error
}

// Options are what a daemon is made of. Every path is absolute.
type Options struct {
	StateRoot string
	Socket    string // of the API
	// RuntimeDir holds the sockets of sessions, in s/. It is made with mode 0700 (0711
	// for the system's daemon).
	RuntimeDir string
	Launcher   session.Launcher
	Worker     Worker
	// Policy reads the host's part of what r may see, anew at every start. Nil: nothing
	// is added. An error refuses the start.
	Policy func(ctx context.Context, r session.Record) (session.Policy, error)
	// RunAs is the user of sessions that root asks for without naming one.
	RunAs   string
	Version api.VersionInfo
	Log     *zap.Logger // nil: nothing is logged
}

// Daemon is a running control plane.
type Daemon struct {
	opt    Options
	store  *session.Store
	log    *zap.Logger
	uid    int
	boot   string
	locks  keylock.Locks // by session id, and by name for its uniqueness
	hub    hub
	run    context.Context // ends with the daemon: streams and watches hang on it
	wg     sync.WaitGroup  // watches
	served http.Server

	captures captures
	lines    lines

	mu       sync.Mutex // guards the fields below
	sessions map[session.ID]session.Record
}

// shutdownTimeout is how long requests under way may take after the daemon was told
// to end.
const shutdownTimeout = 10 * time.Second

// Run opens the state root, takes up what an earlier daemon left, and serves until ctx
// ends. Sessions run on after it. An *api.Error of code ExitBusy: another daemon has
// the state root or the socket.
func Run(ctx context.Context, opt Options) error {
	d, err := newDaemon(opt)
	if err != nil {
		return session.APIError(err)
	}
	defer d.store.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.run = ctx
	defer d.wg.Wait()
	defer cancel(errClosing)
	d.restore(ctx)
	ln, err := listen(opt.Socket)
	if err != nil {
		return session.APIError(err)
	}
	d.log.Info("serving", zap.String("socket", opt.Socket), zap.String("state_root", opt.StateRoot))
	return d.serve(ctx, ln)
}

var errClosing = errors.New("the daemon is closing")

func newDaemon(opt Options) (*Daemon, error) {
	if opt.Log == nil {
		opt.Log = zap.NewNop()
	}
	boot, err := proc.Boot()
	if err != nil {
		return nil, fmt.Errorf("reading the boot id: %w", err)
	}
	if err := checkRunAs(os.Geteuid(), opt.RunAs); err != nil {
		return nil, err
	}
	store, err := session.OpenStore(opt.StateRoot)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		opt: opt, store: store, log: opt.Log, uid: os.Geteuid(), boot: boot,
		sessions: map[session.ID]session.Record{},
		lines:    lines{by: map[proc.ID]line{}},
		captures: captures{slots: make(chan struct{}, capturesAtOnce), by: map[session.ID]*capture{}},
	}
	if err := d.runtimeDirs(); err != nil {
		store.Close()
		return nil, err
	}
	return d, nil
}

func (d *Daemon) runtimeDirs() error {
	mode := os.FileMode(0o700)
	if d.store.System() {
		mode = 0o711 // users pass on to the sockets that are theirs
	}
	for _, dir := range []string{d.opt.RuntimeDir, filepath.Join(d.opt.RuntimeDir, "s")} {
		if err := session.OwnDir(dir, mode); err != nil {
			return fmt.Errorf("runtime directory %s: %w", dir, err)
		}
	}
	return nil
}

func (d *Daemon) shimSocket(id session.ID) string {
	return filepath.Join(d.opt.RuntimeDir, "s", string(id)+".sock")
}

func (d *Daemon) serve(ctx context.Context, ln *listener) error {
	d.served = http.Server{
		Handler:           d.handler(),
		ConnContext:       withPeer,
		ReadHeaderTimeout: 10 * time.Second, // a peer that connects and says nothing
		ErrorLog:          zap.NewStdLog(d.log),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := d.served.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving %s: %w", d.opt.Socket, err)
		}
		return nil
	})
	g.Go(func() error { return d.notify(ctx) })
	g.Go(func() error { return d.sweepOnATimer(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err := d.served.Shutdown(end)
		if errors.Is(err, context.DeadlineExceeded) {
			err = d.served.Close()
		}
		return err
	})
	return g.Wait()
}

// all returns the records, in no order.
func (d *Daemon) all() []session.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]session.Record, 0, len(d.sessions))
	for _, r := range d.sessions {
		list = append(list, r)
	}
	return list
}

func (d *Daemon) byID(id session.ID) (session.Record, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.sessions[id]
	return r, ok
}

// put makes r what is known of its session, and tells the watchers.
func (d *Daemon) put(r session.Record) {
	d.mu.Lock()
	d.sessions[r.ID] = r
	d.mu.Unlock()
	d.log.Info("session", zap.String("session", string(r.ID)), zap.String("state", string(r.State)), zap.String("reason", r.Reason))
	d.hub.tell(r.UID, api.StateEvent{
		Time: time.Now().UTC(), Session: string(r.ID), Name: r.Name, State: string(r.State), Reason: r.Reason,
	})
}

// forget drops what is known of a session that is no more.
func (d *Daemon) forget(r session.Record) {
	d.mu.Lock()
	delete(d.sessions, r.ID)
	d.mu.Unlock()
	d.log.Info("session removed", zap.String("session", string(r.ID)))
	d.hub.tell(r.UID, api.StateEvent{Time: time.Now().UTC(), Session: string(r.ID), Name: r.Name, State: "removed"})
}

// move takes r to a state, on disk first.
func (d *Daemon) move(r *session.Record, to session.State, reason string) error {
	return d.moveBy(d.store.Save, r, to, reason)
}

// moveSoon is move for a session that was started this moment: another daemon finds its
// processes from now on, while a power cut, which ends them too, may still bring the
// record of before back.
func (d *Daemon) moveSoon(r *session.Record, to session.State) error {
	if err := d.moveBy(d.store.Replace, r, to, ""); err != nil {
		return err
	}
	id := r.ID
	d.wg.Go(func() {
		if err := d.store.Sync(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.log.Error("a record was not synced", zap.String("session", string(id)), zap.Error(err))
		}
	})
	return nil
}

func (d *Daemon) moveBy(save func(session.Record) error, r *session.Record, to session.State, reason string) error {
	next := *r
	if err := next.Move(to); err != nil {
		return err
	}
	next.Reason = reason
	switch to {
	case session.Stopped:
		next.Stopped, next.Running = time.Now().UTC(), session.Running{Missing: r.Running.Missing, Warnings: r.Running.Warnings}
	case session.Alive:
		next.Started, next.Boot = time.Now().UTC(), d.boot
	}
	if err := save(next); err != nil {
		return err
	}
	*r = next
	d.put(next)
	return nil
}
