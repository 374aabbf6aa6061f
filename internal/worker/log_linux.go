package worker

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/session"
)

// execs lists the commands of a session whose shim is gone. One without an end was
// ended with the session.
func execs(_ context.Context, w session.Work) (any, error) {
	log, err := execlog.Open(filepath.Join(w.Dir, "log"), execlog.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	list := []api.Command{}
	for _, s := range log.Streams() {
		e := s.Entry()
		c := api.Command{
			Exec: strconv.FormatUint(uint64(e.ID), 10), Argv: e.Argv, TTY: e.TTY, Code: e.Code, Message: e.Message,
			Started: e.Started, Ended: e.Ended, Output: e.Output, Lost: s.First(),
		}
		if e.Signal != 0 {
			c.Signal = session.SignalName(e.Signal)
		}
		if e.Running() {
			c.Code, c.Signal, c.Message = session.CodeSignal+9, "KILL", "the session ended while it ran"
		}
		list = append(list, c)
	}
	return list, nil
}

// output returns what a command of such a session printed, from a place on.
func output(ctx context.Context, w session.Work) (any, error) {
	id, err := strconv.ParseUint(w.Exec, 10, 32)
	if err != nil {
		return nil, session.ErrNoCommand
	}
	log, err := execlog.Open(filepath.Join(w.Dir, "log"), execlog.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := log.Stream(uint32(id))
	if s == nil {
		return nil, session.ErrNoCommand
	}
	ctx, cancel := context.WithCancel(ctx)
	r := s.Reader(w.From)
	defer r.Close()
	cancel() // nothing more will come: the reader does not wait
	var out []byte
	for {
		c, err := r.Next(ctx)
		if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c.Data...)
	}
}
