package main

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/config"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/worker"
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
		Long: "Rules that are given as flags are checked as well: a session of the working directory is planned with them as " +
			"`sbxd start` would, and not started. Without such flags it is one of HOME. A rule that no session can take is refused.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, warnings, err := config.Load(a.sources(config.Flags{}))
			for _, w := range warnings {
				_, _ = fmt.Fprintln(a.err, "sbxd: note:", visible(w.String()))
			}
			if err != nil {
				return faults(a, err)
			}
			return a.checkRules(cfg, session.Given{Masks: o.masks, Carves: o.carves, FinalMasks: o.finalMasks, ReadOnly: o.readOnly})
		},
	}
	o.addRuleFlags(c.Flags())
	return help(c, api.ExitRefused, api.ExitNotFound, api.ExitDenied)
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

// checkRules plans a session with the rules of cfg and given, as a start does, and tells
// why there can be none.
func (a *app) checkRules(cfg config.Config, given session.Given) error {
	project := "" // where nothing is given, nothing is relative
	if len(given.Masks)+len(given.Carves)+len(given.FinalMasks)+len(given.ReadOnly) > 0 {
		var err error
		if project, err = absolute("."); err != nil {
			return err
		}
	}
	w, err := a.planHere(cfg, project, given)
	if err == nil {
		err = worker.Check(w)
	}
	if err != nil {
		return session.APIError(err)
	}
	return nil
}

// planHere is what is planned of a session that works on project, or else on its HOME,
// with the rules of given beside those of cfg. None is started.
func (a *app) planHere(cfg config.Config, project string, given session.Given) (session.Work, error) {
	opt := a.daemonOptions(cfg)
	uid, home := a.sessionUser(cfg)
	w := session.Work{Record: session.Record{UID: uid, Given: given}, Policy: policyOf(cfg), Root: opt.StateRoot}
	w.Policy.StateDirs = append(a.ownFiles(cfg, home), opt.StateRoot, opt.RuntimeDir)
	w.Record.Home.Spelled, w.Record.Project.Spelled = home, cmp.Or(project, home)
	places, err := session.Resolve(w)
	if err != nil {
		return w, err
	}
	err = w.Record.Use(places) // before w is copied
	return w, err
}

// sessionUser is whose a session is that is only planned. No session is root's: for root
// it is the one of run_as, or else whoever has the HOME that root has now.
func (a *app) sessionUser(cfg config.Config) (uid int, home string) {
	uid, home = os.Getuid(), a.getenv("HOME")
	if uid != 0 {
		return uid, home
	}
	name, _, _ := strings.Cut(cfg.RunAs, ":")
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.LookupId(name)
	}
	if err == nil && cfg.RunAs != "" {
		home = cmp.Or(u.HomeDir, home)
	}
	if st, err := os.Stat(home); err == nil {
		uid = int(st.Sys().(*syscall.Stat_t).Uid)
	}
	return uid, home
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
		Base:         holder.Base(),
		Bwrap:        cfg.Bwrap,
		ChangesSize:  int64(cfg.Limits.ChangesMiB) << 20,
		ChangedFiles: int64(cfg.Limits.ChangedFiles),
		LogSize:      int64(cfg.Limits.LogMiB) << 20,
		TmpSize:      int64(cfg.Limits.TmpMiB) << 20,
		ShmSize:      int64(cfg.Limits.ShmMiB) << 20,
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
