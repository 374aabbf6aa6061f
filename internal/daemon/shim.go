package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// ask sends the shim of rec one message and returns its answer.
func (d *Daemon) ask(ctx context.Context, rec session.Record, m session.Msg) (session.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	w, err := d.connect(ctx, rec)
	if err != nil {
		return session.Msg{}, err
	}
	defer w.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	if err := w.Write(m, nil); err != nil {
		return session.Msg{}, fmt.Errorf("asking the shim: %w", err)
	}
	var a session.Msg
	if _, err := w.Read(&a); err != nil {
		return session.Msg{}, fmt.Errorf("asking the shim: %w", errors.Join(context.Cause(ctx), err))
	}
	if a.Type == session.MsgError {
		return a, fmt.Errorf("the shim answered: %s", a.Message)
	}
	return a, nil
}

func (d *Daemon) status(ctx context.Context, rec session.Record) (session.ShimStatus, error) {
	a, err := d.ask(ctx, rec, session.Msg{Type: session.MsgStatus})
	if err != nil {
		return session.ShimStatus{}, err
	}
	if a.Status == nil {
		return session.ShimStatus{}, errors.New("the shim answered without a status")
	}
	return *a.Status, nil
}

// commands lists the commands of a session: its shim knows them while it runs, its log
// later.
func (d *Daemon) commands(ctx context.Context, rec session.Record) ([]api.Command, error) {
	list := []api.Command{}
	if rec.State != session.Alive && rec.State != session.Frozen {
		return list, d.work(ctx, session.WorkExecs, rec, session.Work{}, &list)
	}
	a, err := d.ask(ctx, rec, session.Msg{Type: session.MsgList})
	for _, c := range a.Commands {
		list = append(list, showCommand(c))
	}
	return list, err
}

func showCommand(c session.CommandInfo) api.Command {
	out := api.Command{
		Exec: c.Exec, Argv: c.Argv, Pid: c.Pid, TTY: c.TTY, Running: c.Running, Code: c.Code, Message: c.Message,
		Started: c.Started, Ended: c.Ended, Output: c.Output, Lost: c.Lost,
	}
	if c.Signal != 0 {
		out.Signal = session.SignalName(c.Signal)
	}
	return out
}
