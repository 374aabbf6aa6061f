package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

func newLands(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "lands",
		Short: "List your landings, newest first",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			client, err := a.client()
			if err != nil {
				return err
			}
			list, err := client.Lands(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, orEmpty(list))
			}
			now := time.Now()
			var rows [][]string
			for _, l := range list {
				state := l.State
				switch {
				case l.UndoneBy != "":
					state = "undone by " + l.UndoneBy
				case l.Undoes != "":
					state += ", undid " + l.Undoes
				}
				rows = append(rows, []string{l.ID, l.Session, strconv.Itoa(l.Counts.All()), age(now, l.Time), state, l.Project})
			}
			return table(a.out, "ID SESSION CHANGES AGE STATE PROJECT", rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of landings")
	return help(c, api.ExitDenied, api.ExitNoDaemon)
}
