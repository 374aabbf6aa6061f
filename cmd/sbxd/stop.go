package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

func newStop(a *app) *cobra.Command {
	return moveCommand(a, &cobra.Command{
		Use:   "stop SESSION",
		Short: "End every process of a session; its work is kept",
		Long:  "`sbxd resume` starts it again.",

		ValidArgsFunction: argument(0, a.sessions(), false),
	}, (*api.Client).Stop)
}

func newResume(a *app) *cobra.Command {
	return moveCommand(a, &cobra.Command{
		Use:   "resume SESSION",
		Short: "Start a stopped session again",
		Long:  "Its work is there as it was; the policy is read anew.",

		ValidArgsFunction: argument(0, a.sessions(session.Stopped), false),
	}, (*api.Client).Resume)
}

// moveCommand finishes a command that takes one session to another state.
func moveCommand(a *app, c *cobra.Command, move func(*api.Client, context.Context, string) (api.Session, error)) *cobra.Command {
	var asJSON bool
	c.Args = oneArg("session")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := interruptible(c.Context())
		defer stop()
		client, err := a.client()
		if err != nil {
			return err
		}
		s, err := move(client, ctx, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(a.out, s)
		}
		a.warn(s)
		return nil
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return help(c, api.ExitRefused, api.ExitBusy, api.ExitAttention, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}

func newRemove(a *app) *cobra.Command {
	var discard bool
	c := &cobra.Command{
		Use:   "rm SESSION",
		Short: "Stop a session and remove it with its work",
		Long:  "Refuses while the session has changes that did not land.",
		Args:  oneArg("session"),

		ValidArgsFunction: argument(0, a.sessions(), false),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			client, err := a.client()
			if err != nil {
				return err
			}
			return client.Remove(ctx, args[0], api.RemoveRequest{Discard: discard})
		},
	}
	c.Flags().BoolVar(&discard, "discard", false, "also when changes that did not land are lost")
	return help(c, api.ExitGate, api.ExitBusy, api.ExitAttention, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}
