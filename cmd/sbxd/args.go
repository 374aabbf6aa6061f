package main

import (
	"context"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// interruptible returns a context that ends with the first signal that asks for it.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, got %q", c.CommandPath(), args[0])
	}
	return nil
}

// group makes c a name for its subcommands: alone it tells what they are.
func group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(c, args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// oneArg wants exactly one argument, which name says.
func oneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return usagef("%s: which %s?", c.CommandPath(), name)
		case len(args) > 1:
			return usagef("%s takes one %s, got %d", c.CommandPath(), name, len(args))
		}
		return nil
	}
}
