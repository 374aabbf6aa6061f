package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
)

// app is what commands depend on: the streams and the environment of the process.
type app struct {
	in, out, err *os.File
	getenv       func(string) string

	socket string // --socket
	config string // --config
}

// commands make one command each. Their names are the first words of each Use.
var commands = []struct {
	name string
	make func(*app) *cobra.Command
}{
	{"start", newStart},
	{"exec", newExec},
	{"run", newRun},
	{"list", newList},
	{"status", newStatus},
	{"diff", newDiff},
	{"land", newLand},
	{"undo", newUndo},
	{"lands", newLands},
	{"stop", newStop},
	{"resume", newResume},
	{"rm", newRemove},
	{"sweep", newSweep},
	{"doctor", newDoctor},
	{"config", newConfig},
	{"policy", newPolicy},
	{"trust", newTrust},
	{"serve", newServe},
	{"version", newVersion},
}

func known(name string) bool {
	for _, c := range commands {
		if c.name == name {
			return true
		}
	}
	return false
}

// newRoot returns the command line for args. When they begin with the name of a
// command only that one is made: making all costs a third of a millisecond, which an
// exec would pay each time.
func newRoot(a *app, args ...string) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "sbxd",
		Short:         "Run coding agents in sandboxes; land what they did when you say so",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs, // a word that is no command is answered by RunE
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return noCommand(c, args[0])
			case version:
				return printVersion(a)
			}
			return c.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.PersistentFlags().StringVar(&a.socket, "socket", "", "API `socket` (else $SBXD_SOCKET, the configuration, the user's, the system's)")
	root.PersistentFlags().StringVar(&a.config, "config", "", "configuration `file` instead of the usual ones (else $SBXD_CONFIG)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	root.SetHelpCommand(newHelp())
	for _, c := range commands {
		if len(args) > 0 && known(args[0]) && c.name != args[0] {
			continue
		}
		root.AddCommand(c.make(a))
	}
	if len(args) > 0 && args[0] == "completion" {
		root.InitDefaultCompletionCmd(args...)
		for _, c := range root.Commands() {
			if c.Name() == "completion" {
				group(c)
			}
		}
	}
	var all []int
	for _, row := range codes {
		all = append(all, row.code)
	}
	return help(root, all...)
}

// help finishes a command: its long text ends with the exit codes it can give.
func help(c *cobra.Command, more ...int) *cobra.Command {
	c.Long = strings.TrimSpace(c.Short + ".\n\n" + wrap(c.Long))
	c.Example = strings.TrimRight(c.Example, "\n")
	wanted := map[int]bool{api.ExitOK: true, api.ExitFailed: true, api.ExitUsage: true}
	for _, code := range more {
		wanted[code] = true
	}
	var b strings.Builder
	b.WriteString("\n\nEXIT STATUS\n")
	for _, row := range codes {
		if wanted[row.code] {
			fmt.Fprintf(&b, "  %3d  %s\n", row.code, row.means)
		}
	}
	c.SetUsageTemplate(strings.TrimRight(c.UsageTemplate(), "\n") + b.String())
	return c
}

// wrap breaks a paragraph into lines that fit a terminal of 80 columns.
func wrap(text string) string {
	const width = 79
	var b strings.Builder
	at := 0
	for _, word := range strings.Fields(text) {
		switch {
		case at == 0:
		case at+1+len(word) > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}
