package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newRun(a *app) *cobra.Command {
	var start startOptions
	var o execOptions
	c := &cobra.Command{
		Use:   "run [--project DIR] [flags] -- COMMAND [ARG...]",
		Short: "Start a session, run a command in it, keep the session",
		Long: "The session's id is printed on standard error. It goes on after the command: look with `sbxd diff`, " +
			"keep with `sbxd land`, end with `sbxd stop` and `sbxd rm`.",
		Example: "  sbxd run --project . -- make",
		Args: func(c *cobra.Command, args []string) error {
			return wantCommand(c, args, "")
		},
		RunE: func(c *cobra.Command, args []string) error {
			r, ctx := newRunner(c.Context(), a, &o)
			client, err := a.client()
			if err != nil {
				return err
			}
			client.Ahead(ctx)
			s, err := startSession(ctx, a, client, &start)
			if err != nil {
				return ours(err)
			}
			_, _ = fmt.Fprintln(a.err, s.ID)
			return r.execute(ctx, client, s.ID, args)
		},
	}
	start.addFlags(c.Flags())
	completeStart(a, c)
	o.addFlags(c.Flags())
	return help(afterDashes(c), execCodes...)
}
