package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

func newDiff(a *app) *cobra.Command {
	var asJSON, stat, home bool
	c := &cobra.Command{
		Use:   "diff SESSION",
		Short: "Show what a session changed",
		Long: "Ends with the changeset's id, which `sbxd land --expect` takes. " +
			"Control characters in names and contents are escaped; --json has every name as it is.",
		Args:              oneArg("session"),
		ValidArgsFunction: argument(0, a.sessions(), false),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			client, err := a.client()
			if err != nil {
				return err
			}
			d, err := client.Diff(ctx, args[0], api.DiffOptions{Home: home, Text: !stat && !asJSON})
			if err != nil {
				return err
			}
			if asJSON {
				d.Changes = orEmpty(d.Changes)
				return printJSON(a.out, d)
			}
			printDiff(a.out, d)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the changeset as JSON")
	c.Flags().BoolVar(&stat, "stat", false, "list the changes without their contents")
	c.Flags().BoolVar(&home, "home", false, "show what changed in HOME, which never lands")
	return help(c, api.ExitBusy, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}

func printDiff(w io.Writer, d api.Diff) {
	if len(d.Changes)+len(d.Dropped)+len(d.Findings) == 0 {
		return
	}
	printChanges(w, d.Changes)
	printFindings(w, d.Findings)
	printDropped(w, d.Dropped)
	if d.Text != "" {
		_, _ = io.WriteString(w, "\n"+visibleText(d.Text))
	}
	if d.ID != "" {
		_, _ = fmt.Fprintf(w, "\nchangeset %s: %s\n", d.ID, entries(len(d.Changes)))
	}
}
