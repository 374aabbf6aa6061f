package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

func newTrust(a *app) *cobra.Command {
	var asJSON bool
	var runAs string
	c := &cobra.Command{
		Use:   "trust DIR",
		Short: "Let a project's own .sbxd.toml count, as it is now",
		Long: "Look at it first. It can only take something away from sessions: paths that are hidden or read-only, the network. " +
			"A file with a fault is not trusted; another content or another directory has to be trusted anew.",
		Args:              oneArg("directory"),
		ValidArgsFunction: argument(0, directories, false),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			dir, err := absolute(args[0])
			if err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			t, err := client.Trust(ctx, api.TrustRequest{Dir: dir, Home: a.getenv("HOME"), RunAs: runAs})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, t)
			}
			_, err = fmt.Fprintln(a.err, "trusted:", visible(t.File))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what was trusted as JSON")
	c.Flags().StringVar(&runAs, "run-as", "", "as root: the `USER` whose sessions it is for (default: the daemon's --run-as)")
	return help(c, api.ExitRefused, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}
