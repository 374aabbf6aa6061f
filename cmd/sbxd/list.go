package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

func newList(a *app) *cobra.Command {
	var asJSON, quiet bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List your sessions, oldest first",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			client, err := a.client()
			if err != nil {
				return err
			}
			list, err := client.List(ctx)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return printJSON(a.out, orEmpty(list))
			case quiet:
				for _, s := range list {
					_, _ = fmt.Fprintln(a.out, s.ID)
				}
				return nil
			}
			now := time.Now()
			var rows [][]string
			for _, s := range list {
				rows = append(rows, []string{s.ID, s.Name, s.State, s.Agent, strconv.Itoa(s.Commands), age(now, s.Created), s.Project})
			}
			return table(a.out, "ID NAME STATE AGENT COMMANDS AGE PROJECT", rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of sessions")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids alone")
	return help(c, api.ExitDenied, api.ExitNoDaemon)
}

// orEmpty makes an empty list print as [] rather than null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// warn tells what a person should know of a session that was just started.
func (a *app) warn(s api.Session) {
	for _, w := range s.Warnings {
		_, _ = fmt.Fprintln(a.err, "sbxd: note:", visible(w))
	}
	for _, m := range s.Missing {
		_, _ = fmt.Fprintln(a.err, "sbxd: this host lacks", visible(m)+"; see sbxd doctor")
	}
}
