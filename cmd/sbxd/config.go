package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/config"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

func newConfig(a *app) *cobra.Command {
	c := group(&cobra.Command{Use: "config", Short: "Check and explain the configuration"})
	c.AddCommand(newConfigCheck(a), newConfigShow(a),
		printCommand(a, "example", "Print a file with every key, its default and what it means", config.Example),
		printCommand(a, "schema", "Print the JSON schema of a configuration file", config.Schema))
	return help(c)
}

func printCommand(a *app, name, short string, text func() []byte) *cobra.Command {
	return help(&cobra.Command{
		Use:   name,
		Short: short,
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(text())
			return err
		},
	})
}

func newConfigCheck(a *app) *cobra.Command {
	var o startOptions
	c := &cobra.Command{
		Use:   "check",
		Short: "Read the configuration as the daemon does, and name every fault",
		Long:  "Rules that are given as flags are checked as well, as `sbxd start` would take them.",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			flags := config.Flags{Masks: o.masks, FinalMasks: o.finalMasks, Carves: o.carves, ReadOnly: o.readOnly}
			cfg, warnings, err := config.Load(a.sources(flags))
			for _, w := range warnings {
				_, _ = fmt.Fprintln(a.err, "sbxd: note:", visible(w.String()))
			}
			if err == nil {
				err = a.checkRules(cfg)
			}
			return faults(a, err)
		},
	}
	o.addRuleFlags(c.Flags())
	return help(c)
}

// faults prints each fault on a line of its own.
func faults(a *app, err error) error {
	if err == nil {
		return nil
	}
	list := config.Faults(err)
	if len(list) == 0 {
		return usage{err}
	}
	for _, f := range list {
		_, _ = fmt.Fprintln(a.err, "sbxd:", visible(f.Error()))
	}
	return status(api.ExitUsage)
}

// checkRules refuses rules that contradict the built-in ones or each other, whatever
// the project.
func (a *app) checkRules(cfg config.Config) error {
	home := a.getenv("HOME")
	real, err := filepath.EvalSymlinks(home)
	if err != nil {
		return fmt.Errorf("find HOME: %w", err)
	}
	policy := policyOf(cfg)
	rec := session.Record{Home: session.Place{Spelled: home, Real: real}}
	rules, err := policy.RulesFor(rec)
	if err != nil {
		return err
	}
	return masks.Check(masks.Input{Home: real, HomeSpelled: home, StateDirs: policy.StateDirs, Rules: rules})
}

func newConfigShow(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Print every setting and where it comes from",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load()
			if err != nil {
				return faults(a, err)
			}
			var rows [][]string
			for _, s := range cfg.Explain() {
				rows = append(rows, []string{s.Key, s.From, s.Value}) // the longest last
			}
			return table(a.out, "KEY FROM VALUE", rows)
		},
	}
	return help(c)
}

// sources are the files and flags that a command of this caller goes by.
func (a *app) sources(flags config.Flags) config.Sources {
	s := config.Usual(os.Getuid(), a.getenv)
	if a.config != "" {
		s.Only = a.config
	}
	if flags.State == "" {
		flags.State = s.Flags.State
	}
	if flags.Socket == "" {
		flags.Socket = s.Flags.Socket
	}
	s.Flags = flags
	return s
}

// load reads the configuration; without any file that costs two system calls.
func (a *app) load() (config.Config, error) {
	cfg, _, err := config.Load(a.sources(config.Flags{Socket: a.socket}))
	return cfg, err
}

// policyOf is the configuration's part of what every session sees.
func policyOf(cfg config.Config) session.Policy {
	p := session.Policy{
		Base:    holder.Base(),
		Bwrap:   cfg.Bwrap,
		LogSize: int64(cfg.Limits.LogMiB) << 20,
		TmpSize: int64(cfg.Limits.TmpMiB) << 20,
		ShmSize: int64(cfg.Limits.ShmMiB) << 20,
	}
	for _, l := range []struct {
		paths []config.Path
		given func(string) session.Given
	}{
		{cfg.Masks, func(s string) session.Given { return session.Given{Masks: []string{s}} }},
		{cfg.FinalMasks, func(s string) session.Given { return session.Given{FinalMasks: []string{s}} }},
		{cfg.Carves, func(s string) session.Given { return session.Given{Carves: []string{s}} }},
		{cfg.ReadOnly, func(s string) session.Given { return session.Given{ReadOnly: []string{s}} }},
	} {
		for _, path := range l.paths {
			p.Given = append(p.Given, session.Source{From: path.From, Rules: l.given(path.Text)})
		}
	}
	return p
}
