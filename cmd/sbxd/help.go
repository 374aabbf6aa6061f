package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// newHelp is `sbxd help`. Cobra's own ends with 0 when there is no such command.
func newHelp() *cobra.Command {
	return help(&cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "Help about a command",
		ValidArgsFunction: completeCommand,
		RunE: func(c *cobra.Command, args []string) error {
			of, left, err := c.Root().Find(args)
			if err != nil {
				return usage{err}
			}
			if len(left) > 0 {
				return noCommand(of, left[0])
			}
			of.InitDefaultHelpFlag() // so that it is shown
			return of.Help()
		},
	})
}

// noCommand says that word is no command below c, and what is.
func noCommand(c *cobra.Command, word string) error {
	where := ""
	if c.HasParent() {
		where = " below " + c.CommandPath()
	}
	if near := c.SuggestionsFor(word); len(near) > 0 {
		return usagef("there is no command %q%s; did you mean %s?", word, where, strings.Join(near, " or "))
	}
	names := commandNames(c)
	if len(names) == 0 {
		return usagef("there is no command %q%s; see %s --help", word, where, c.CommandPath())
	}
	return usagef("there is no command %q%s; there are: %s", word, where, strings.Join(names, ", "))
}

func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

func completeCommand(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	of, left, err := c.Root().Find(args)
	if err != nil || len(left) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, name := range commandNames(of) {
		if strings.HasPrefix(name, begun) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
