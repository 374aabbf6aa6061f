package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

type landOptions struct {
	yes, dryRun, json bool
	expect            string
	allow             []string
}

func newLand(a *app) *cobra.Command {
	var o landOptions
	c := &cobra.Command{
		Use:   "land SESSION",
		Short: "Put a session's changes into the real project",
		Long: "Shows what will land and asks. All of it lands or none; what the host changed meanwhile is never lost. " +
			"The landing's id is printed, which `sbxd undo` takes.",
		Example: "  sbxd land $S\n  sbxd land --yes --expect $CHANGESET $S",
		Args:    oneArg("session"),

		ValidArgsFunction: argument(0, a.sessions(), false),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			return land(ctx, a, args[0], &o)
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask; also agrees to findings of kind confirm")
	f.StringVar(&o.expect, "expect", "", "land only changeset `ID`, as sbxd diff showed it")
	f.BoolVar(&o.dryRun, "dry-run", false, "only show what would land")
	f.StringArrayVar(&o.allow, "allow", nil, "agree to the `FINDING` of this id; may be given again")
	f.BoolVar(&o.json, "json", false, "print the landing as JSON")
	return help(c, api.ExitNothing, api.ExitConflict, api.ExitGate, api.ExitDrift, api.ExitRefused,
		api.ExitBusy, api.ExitAttention, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}

func land(ctx context.Context, a *app, session string, o *landOptions) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	if o.yes && !o.dryRun {
		l, err := client.Land(ctx, session, api.LandRequest{Yes: true, Expect: o.expect, Allow: o.allow})
		return a.landed(l, err, o.json)
	}
	plan, err := client.Land(ctx, session, api.LandRequest{DryRun: true, Expect: o.expect, Allow: o.allow, Yes: o.yes})
	if o.dryRun {
		return a.planned(plan, err, o.json)
	}
	if gate := gated(err); err != nil && (!gate || !a.interactive()) {
		return a.planned(plan, err, o.json)
	}
	a.show(plan)
	if err := a.ask(ctx, "Land this?"); err != nil {
		return err
	}
	// What lands is what was shown: the changeset's id is what was agreed to.
	l, err := client.Land(ctx, session, api.LandRequest{Yes: true, Expect: plan.Changeset, Allow: o.allow})
	return a.landed(l, err, o.json)
}

// gated reports whether err only wants a person's yes.
func gated(err error) bool {
	e := new(api.Error)
	return errors.As(err, &e) && e.Code == api.ExitGate
}

// planned prints a plan, which may come with the reason that keeps it from landing.
func (a *app) planned(l api.Landing, err error, asJSON bool) error {
	switch {
	case err != nil && l.State == "" && len(l.Changes)+len(l.Findings) == 0:
	case asJSON:
		err = errors.Join(err, printJSON(a.out, l))
	default:
		printPlan(a.out, l)
		if l.Changeset != "" && l.Undoes == "" {
			_, _ = fmt.Fprintf(a.out, "\nchangeset %s: %s\n", l.Changeset, entries(len(l.Changes)))
		}
	}
	return err
}

// landed prints a landing that was made: for people what it did, for programs its id.
func (a *app) landed(l api.Landing, err error, asJSON bool) error {
	if err != nil {
		if asJSON {
			return a.planned(l, err, true)
		}
		printFindings(a.err, l.Findings)
		return err
	}
	if asJSON {
		return printJSON(a.out, l)
	}
	for _, left := range l.Left {
		_, _ = fmt.Fprintln(a.err, "sbxd: left alone:", visible(left))
	}
	did := l.State
	if l.Undoes != "" {
		did = "undone"
	}
	_, _ = fmt.Fprintln(a.err, entries(len(l.Changes)), did)
	_, err = fmt.Fprintln(a.out, l.ID)
	return err
}

func (a *app) show(l api.Landing) {
	_, _ = fmt.Fprintf(a.err, "%s, in %s:\n", entries(len(l.Changes)), visible(l.Project))
	printPlan(a.err, l)
}

func printPlan(w io.Writer, l api.Landing) {
	printChanges(w, l.Changes)
	printFindings(w, l.Findings)
	printDropped(w, l.Dropped)
}

// interactive reports whether somebody is there to answer.
func (a *app) interactive() bool { return isTerminal(a.in) && isTerminal(a.err) }

// ask wants a yes. Where nobody can be asked it is a gate that --yes opens.
func (a *app) ask(ctx context.Context, question string) error {
	if !a.interactive() {
		return &api.Error{Code: api.ExitGate, Message: "this needs a yes, and standard input is no terminal", Hint: "look, then give --yes"}
	}
	_, _ = fmt.Fprint(a.err, question, " [y/N] ")
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.err)
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	return &api.Error{Code: api.ExitGate, Message: "not agreed; nothing was changed"}
}
