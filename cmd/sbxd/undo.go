package main

import (
	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

func newUndo(a *app) *cobra.Command {
	var yes, dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "undo LANDING",
		Short: "Take a landing back",
		Long:  "Shows what will change and asks. What was changed after the landing is a conflict, never lost.",
		Args:  oneArg("landing"),

		ValidArgsFunction: argument(0, a.landings(), false),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			client, err := a.client()
			if err != nil {
				return err
			}
			if !yes || dryRun {
				plan, err := client.Undo(ctx, args[0], api.UndoRequest{DryRun: true})
				if dryRun || err != nil {
					return a.planned(plan, err, asJSON)
				}
				a.show(plan)
				if err := a.ask(ctx, "Undo this?"); err != nil {
					return err
				}
			}
			l, err := client.Undo(ctx, args[0], api.UndoRequest{Yes: true})
			return a.landed(l, err, asJSON)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would change")
	c.Flags().BoolVar(&asJSON, "json", false, "print the landing as JSON")
	return help(c, api.ExitNothing, api.ExitConflict, api.ExitGate, api.ExitBusy, api.ExitAttention,
		api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}
