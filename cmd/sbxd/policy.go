package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/worker"
	"github.com/sbxd/sbxd/session"
)

func newPolicy(a *app) *cobra.Command {
	c := group(&cobra.Command{Use: "policy", Short: "Explain what sessions may see"})
	c.AddCommand(newPolicyExplain(a))
	return help(c)
}

func newPolicyExplain(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain PATH [SESSION]",
		Short: "Tell what a session makes of a path, and by which rule",
		Long: "Without a session it is one that would be started here with the configuration as it is. " +
			"A relative path is below the session's project.",
		Example: "  sbxd policy explain ~/.ssh/id_ed25519 $S",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 || args[0] == "" || args[len(args)-1] == "" {
				return usagef("sbxd policy explain: which path, and of which session?")
			}
			return nil
		},
		ValidArgsFunction: argument(1, a.sessions(), true),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			e, err := a.explain(ctx, args)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, e)
			}
			return printExplanation(a, e)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the explanation as JSON")
	return help(c, api.ExitRefused, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}

func (a *app) explain(ctx context.Context, args []string) (api.Explanation, error) {
	if len(args) == 1 {
		return a.explainHere(args[0])
	}
	client, err := a.client()
	if err != nil {
		return api.Explanation{}, err
	}
	path := a.expand(args[0])
	if !filepath.IsAbs(path) {
		s, err := client.Session(ctx, args[1])
		if err != nil {
			return api.Explanation{}, err
		}
		path = filepath.Join(s.Project, path)
	}
	return client.Explain(ctx, args[1], path)
}

// expand reads "~/" as rules do, where no shell did.
func (a *app) expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(a.getenv("HOME"), rest)
	}
	return path
}

// explainHere plans a session of the working directory, and starts none.
func (a *app) explainHere(path string) (api.Explanation, error) {
	abs, err := absolute(a.expand(path))
	if err != nil {
		return api.Explanation{}, err
	}
	cfg, err := a.load()
	if err != nil {
		return api.Explanation{}, faults(a, err)
	}
	project, err := os.Getwd()
	if err != nil {
		return api.Explanation{}, fmt.Errorf("find the working directory: %w", err)
	}
	if os.Getuid() == 0 {
		return api.Explanation{}, &api.Error{
			Code: api.ExitRefused, Message: "a session never runs as root, so there is none that would be started here",
			Hint: "name a session, or ask as its user",
		}
	}
	w, err := a.planHere(cfg, project, session.Given{})
	if err != nil {
		return api.Explanation{}, session.APIError(err)
	}
	w.Path = abs
	e, err := worker.Explain(w)
	if err != nil {
		return e, session.APIError(err)
	}
	return e, nil
}

func printExplanation(a *app, e api.Explanation) error {
	list := []fact{{"path", e.Path}, {"access", e.Access}, {"rule", e.Rule}, {"why", e.Why}}
	for _, step := range e.Chain {
		list = append(list, fact{"step", step})
	}
	for _, n := range e.Notes {
		list = append(list, fact{"note", n})
	}
	return facts(a.out, list)
}
