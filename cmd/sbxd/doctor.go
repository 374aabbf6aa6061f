package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/doctor"
)

func newDoctor(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine offers, and what to do about what it does not",
		Long:  "Each line is ok, degraded or missing. It tries the real thing, changes nothing, and works without a daemon.",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			cfg, err := a.load()
			if err != nil {
				return err
			}
			checks := doctor.Run(ctx, doctor.Options{State: stateRoot(cfg), Bwrap: cfg.Bwrap})
			if err := ctx.Err(); err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(a.out, checks); err != nil {
					return err
				}
			} else {
				printChecks(a, checks)
			}
			if !doctor.Usable(checks) {
				return status(api.ExitRefused)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of checks")
	return help(c, api.ExitRefused)
}

func printChecks(a *app, checks []doctor.Check) {
	for _, k := range checks {
		_, _ = fmt.Fprintf(a.out, "%-9s %-16s %s\n", k.Status, k.Name, visible(k.Detail))
		if k.Remedy != "" {
			_, _ = fmt.Fprintf(a.out, "%27s%s\n", "do: ", visible(k.Remedy))
		}
	}
}
