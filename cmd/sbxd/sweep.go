package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/worker"
	"github.com/sbxd/sbxd/session"
	"github.com/sbxd/sbxd/sweep"
)

func newSweep(a *app) *cobra.Command {
	var dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Remove what dead sessions left",
		Long: "Reads the mount tables of the host and of every namespace, the records, the state root and what probes made in /tmp. " +
			"What lives, what is young, and what cannot be judged is kept; work that did not land is archived. It asks the daemon, and works without one.",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			s, err := sweepNow(ctx, a, dryRun)
			if err != nil {
				return err
			}
			if asJSON {
				s.Items = orEmpty(s.Items)
				if err := printJSON(a.out, s); err != nil {
					return err
				}
			} else {
				printSweep(a, s)
			}
			for _, i := range s.Items {
				if i.Error != "" {
					return status(api.ExitAttention)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be done")
	c.Flags().BoolVar(&asJSON, "json", false, "print what was found and done as JSON")
	return help(c, api.ExitBusy, api.ExitAttention, api.ExitDenied)
}

// sweepNow lets the daemon sweep, or does it here when there is none.
func sweepNow(ctx context.Context, a *app, dryRun bool) (api.Sweep, error) {
	client, err := a.client()
	if err == nil {
		var s api.Sweep
		s, err = client.Sweep(ctx, api.SweepRequest{DryRun: dryRun})
		if err == nil {
			return s, nil
		}
	}
	if e := new(api.Error); !errors.As(err, &e) || e.Code != api.ExitNoDaemon {
		return api.Sweep{}, err
	}
	return a.sweepHere(ctx, dryRun)
}

// sweepHere holds the state root's lock meanwhile, so that no daemon starts on it.
func (a *app) sweepHere(ctx context.Context, dryRun bool) (api.Sweep, error) {
	cfg, err := a.load()
	if err != nil {
		return api.Sweep{}, err
	}
	opt := a.daemonOptions(cfg)
	store, err := session.OpenStore(opt.StateRoot)
	if err != nil {
		return api.Sweep{}, session.APIError(err)
	}
	defer store.Close()
	known, err := sweep.KnownOf(store, opt.RuntimeDir, nil)
	if err != nil {
		return api.Sweep{}, err
	}
	return sweep.Run(ctx, known, sweep.Local{Store: store, Work: workFor}, dryRun)
}

// workFor does what needs the rights of the uid that owns a directory, by a worker.
func workFor(ctx context.Context, uid int, op string, w session.Work) error {
	w.Record = session.Record{UID: uid, GID: uid}
	return new(worker.Starter).Do(ctx, op, w, nil)
}

func printSweep(a *app, s api.Sweep) {
	for _, i := range s.Items {
		if i.Action == "keep" && !s.DryRun {
			continue
		}
		_, _ = fmt.Fprintf(a.out, "%-8s %-10s %s: %s\n", i.Action, i.Kind, visible(i.What), visible(i.Reason))
		if i.Error != "" {
			_, _ = fmt.Fprintf(a.err, "sbxd: %s %s: %s\n", i.Action, visible(i.What), visible(i.Error))
		}
	}
}
