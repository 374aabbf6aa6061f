package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/config"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

// completeTime is how long a shell waits for a daemon: somebody has just pressed a key.
const completeTime = time.Second

// completer completes words of a command line. It asks the daemon and never says a
// word: where there is no daemon, or no configuration that can be read, there is
// nothing to complete.
type completer = cobra.CompletionFunc

// candidates are what a completer knows, each with what it is: "word\tdescription".
type candidates func(context.Context, *api.Client) ([]cobra.Completion, error)

// asked completes from what the daemon answers.
func (a *app) asked(list candidates) completer {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		quiet := *a
		quiet.err = nil // a fault of the configuration would be told there
		client, err := quiet.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completeTime)
		defer cancel()
		all, err := list(ctx, client)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return begin(all, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func begin(all []cobra.Completion, begun string) []cobra.Completion {
	return slices.DeleteFunc(all, func(c cobra.Completion) bool { return !strings.HasPrefix(c, begun) })
}

// argument completes the n-th argument, from 0; the others as without completer where
// files is true, else not at all.
func argument(n int, f completer, files bool) completer {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) == n:
			return f(c, args, begun)
		case files:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// sessions completes ids and names of sessions in one of the states; of all without any.
func (a *app) sessions(states ...session.State) completer {
	return a.asked(func(ctx context.Context, client *api.Client) ([]cobra.Completion, error) {
		list, err := client.List(ctx)
		var out []cobra.Completion
		for _, s := range list {
			if len(states) > 0 && !slices.Contains(states, session.State(s.State)) {
				continue
			}
			what := s.State + ", " + visible(s.Project)
			if s.Name != "" {
				out = append(out, cobra.CompletionWithDesc(s.Name, what))
				what = s.Name + ", " + what
			}
			out = append(out, cobra.CompletionWithDesc(s.ID, what))
		}
		return out, err
	})
}

// landings completes the ids of landings that can be undone.
func (a *app) landings() completer {
	return a.asked(func(ctx context.Context, client *api.Client) ([]cobra.Completion, error) {
		list, err := client.Lands(ctx)
		now := time.Now()
		var out []cobra.Completion
		for _, l := range list {
			if l.UndoneBy == "" {
				out = append(out, cobra.CompletionWithDesc(l.ID, entries(l.Counts.All())+", "+age(now, l.Time)+" ago, "+visible(l.Project)))
			}
		}
		return out, err
	})
}

// agents completes the names of profiles: those that are built in, and the configuration's.
func (a *app) agents(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := masks.AgentNames()
	if cfg, _, err := config.Load(a.sources(config.Flags{})); err == nil {
		names = slices.AppendSeq(names, maps.Keys(cfg.Agents))
	}
	slices.Sort(names)
	return begin(slices.Compact(names), begun), cobra.ShellCompDirectiveNoFileComp
}

// completeFlags adds completers to flags of c. That a flag is missing is a mistake here.
func completeFlags(c *cobra.Command, flags map[string]completer) {
	for name, f := range flags {
		if err := c.RegisterFlagCompletionFunc(name, f); err != nil {
			panic(err)
		}
	}
}

// directories completes names of directories.
func directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
