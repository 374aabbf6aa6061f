package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

func newStatus(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [SESSION]",
		Short: "Show a session, or the daemon when none is named",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("session")(c, args)
		},
		ValidArgsFunction: argument(0, a.sessions(), false),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			client, err := a.client()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				v, err := client.Version(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(a.out, v)
				}
				return facts(a.out, daemonFacts(v))
			}
			s, err := client.Session(ctx, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, s)
			}
			return facts(a.out, sessionFacts(s))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return help(c, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}

type fact struct{ name, value string }

// facts prints what is known, one a line; what is not known is left out.
func facts(w io.Writer, list []fact) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, f := range list {
		if f.value != "" {
			_, _ = fmt.Fprintf(t, "%s:\t%s\n", f.name, visible(f.value))
		}
	}
	return t.Flush()
}

func daemonFacts(v api.VersionInfo) []fact {
	return []fact{
		{"version", strings.TrimSpace(v.Version + " " + v.Commit)},
		{"pid", strconv.Itoa(v.Pid)},
		{"uid", strconv.Itoa(v.UID)},
		{"state root", v.State},
		{"socket", v.Socket},
	}
}

func sessionFacts(s api.Session) []fact {
	list := []fact{
		{"id", s.ID},
		{"name", s.Name},
		{"state", strings.TrimSuffix(s.State+": "+s.Reason, ": ")},
		{"project", s.Project},
		{"home", s.Home},
		{"agent", s.Agent},
		{"uid", strconv.Itoa(s.UID)},
		{"view", s.Backend},
		{"network", s.Network},
		{"parent", s.Parent},
		{"created", stamp(s.Created)},
		{"started", stamp(s.Started)},
		{"stopped", stamp(s.Stopped)},
		{"commands", strconv.Itoa(s.Commands)},
		{"unlanded", unlanded(s)},
		{"environment", strings.Join(s.EnvNames, " ")},
		{"directory", s.Dir},
	}
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		list = append(list, fact{"label", k + "=" + s.Labels[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(s.Pids)) {
		list = append(list, fact{"pid of " + k, strconv.Itoa(s.Pids[k])})
	}
	for _, m := range s.Missing {
		list = append(list, fact{"missing", m})
	}
	for _, w := range s.Warnings {
		list = append(list, fact{"note", w})
	}
	return list
}

// unlanded is "" where it could not be told; a note says why.
func unlanded(s api.Session) string {
	if s.Unlanded == nil {
		return ""
	}
	return strconv.Itoa(*s.Unlanded)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339)
}
