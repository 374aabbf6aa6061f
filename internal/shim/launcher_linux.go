package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// stageEnv names the hidden stage that a re-executed binary is to run.
const stageEnv = "SBXD_STAGE"

// How long things may take that normally take milliseconds. A start on a loaded
// machine with thousands of masks is still well below a minute.
const (
	startTimeout = 60 * time.Second
	stopGrace    = 5 * time.Second // SIGTERM to the commands, then SIGKILL
	killTimeout  = 5 * time.Second
	// spareDelay keeps the making of the next spare out of the way of a session's first
	// command.
	spareDelay = 100 * time.Millisecond
)

// Launcher starts shims, each as the user of its session. It implements
// session.Launcher; the zero value is ready.
type Launcher struct {
	mu     sync.Mutex // guards the fields below
	spare  *fresh
	closed bool
	found  *found
}

var _ session.Launcher = (*Launcher)(nil)

// Start starts the processes of r.
func (l *Launcher) Start(ctx context.Context, r session.Record, launch session.Launch) (session.Running, error) {
	running, err := l.start(ctx, r, launch)
	if err != nil {
		_ = os.Remove(launch.Socket)
	}
	return running, err
}

func (l *Launcher) start(ctx context.Context, r session.Record, launch session.Launch) (session.Running, error) {
	layers, names, err := cutLayers(r)
	if err != nil {
		return session.Running{}, err
	}
	defer closeAll(layers)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	findings, err := l.Findings(ctx, launch.Policy.Bwrap, r.Cred())
	if err != nil {
		return session.Running{}, err
	}
	n, err := needOf(r, launch.Policy, findings)
	if err != nil {
		return session.Running{}, err
	}
	g := &goods{launch: launch, record: r, layers: layers}
	defer g.close()
	o := order{Record: r, Launch: launch, Layers: names}
	s := l.takeSpare(n)
	defer l.prepareSoon(n)
	out, err := outcome{}, errNoSpare
	if s != nil {
		out, err = s.launch(ctx, o, g)
	}
	var own *ownError
	if (err != nil && !errors.As(err, &own) || out.Early) && ctx.Err() == nil { // none, or one that died waiting
		if s != nil {
			s.end()
		}
		if s, err = spawn(n); err != nil {
			return session.Running{}, err
		}
		out, err = s.launch(ctx, o, g)
	}
	defer s.link.Close()
	if err == nil && out.Error == "" {
		go func() { _, _ = s.process.Wait() }() // no zombie while the daemon lives
		return out.Running, nil
	}
	s.end()
	return session.Running{}, explain(ctx, out, err)
}

// explain is the error of a start that failed by err, or by what the shim says.
func explain(ctx context.Context, out outcome, err error) error {
	var own *ownError
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("start the session: it takes longer than %v", startTimeout)
	case ctx.Err() != nil:
		return fmt.Errorf("start the session: %w", context.Cause(ctx))
	case errors.As(err, &own):
		return own.error
	case err != nil:
		return fmt.Errorf("start the session: its shim ended: %w", err)
	case out.Rule:
		rule := strings.TrimPrefix(out.Error, session.ErrRefused.Error()+": ")
		return fmt.Errorf("%w: %s", session.ErrRefused, rule)
	}
	return fmt.Errorf("start the session (step %s): %s", out.Step, out.Error)
}

// Dial connects to the shim of r.
func (l *Launcher) Dial(ctx context.Context, r session.Record, socket string) (net.Conn, error) {
	if shim := r.Running.Shim; shim != (proc.ID{}) && shim.Alive() == proc.Dead {
		return nil, session.ErrGone
	}
	var d net.Dialer
	dir, name, err := shortPath(socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrGone, err)
	}
	defer dir.Close()
	c, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrGone, err)
	}
	return c, nil
}
