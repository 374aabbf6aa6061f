package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/config"
	"github.com/sbxd/sbxd/internal/daemon"
	"github.com/sbxd/sbxd/internal/shim"
	"github.com/sbxd/sbxd/internal/worker"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

type serveOptions struct {
	state, runAs string
}

func newServe(a *app) *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: "Sessions outlive it: it may be stopped, killed and started again under running commands. " +
			"It writes its log to standard error and ends with SIGTERM or SIGINT. " +
			"As root it wants --run-as, because no session ever runs as uid 0.",
		Example: "  sbxd serve &\n  systemctl start sbxd",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			return serve(ctx, a, &o)
		},
	}
	c.Flags().StringVar(&o.state, "state", "", "state root `DIR` (else $SBXD_STATE, the configuration, the usual place)")
	c.Flags().StringVar(&o.runAs, "run-as", "", "as root: the `USER` (name, uid or uid:gid) of sessions that root starts")
	return help(c, api.ExitRefused, api.ExitBusy, api.ExitNotFound, api.ExitDenied)
}

func serve(ctx context.Context, a *app, o *serveOptions) error {
	cfg, warnings, err := config.Load(a.sources(config.Flags{State: o.state, Socket: a.socket, RunAs: o.runAs}))
	if err != nil {
		return faults(a, err)
	}
	opt := a.daemonOptions(cfg)
	opt.Log = newLog(a.err)
	defer func() { _ = opt.Log.Sync() }()
	for _, w := range warnings {
		opt.Log.Warn("configuration", zap.String("from", w.From), zap.String("note", w.Text))
	}
	launcher := &shim.Launcher{}
	defer launcher.Close()
	opt.Launcher, opt.Worker = launcher, &worker.Starter{}
	opt.Policy = a.policy
	return daemon.Run(ctx, opt)
}

// daemonOptions settles where a daemon's things are.
func (a *app) daemonOptions(cfg config.Config) daemon.Options {
	state := stateRoot(cfg)
	runtime := a.runtimeDir(state)
	socket := cfg.Socket
	if socket == "" {
		socket = filepath.Join(runtime, "sbxd.sock")
	}
	b := buildInfo()
	return daemon.Options{
		StateRoot: state, Socket: socket, RuntimeDir: runtime, RunAs: cfg.RunAs,
		Version: api.VersionInfo{
			Version: b.Version, Commit: b.Commit, Go: b.Go, API: api.Version,
			Pid: os.Getpid(), UID: os.Getuid(), State: state, Socket: socket,
		},
	}
}

// policy is the host's part of what a session sees, read anew at every start.
func (a *app) policy(_ context.Context, r session.Record) (session.Policy, error) {
	cfg, err := a.load()
	if err != nil {
		return session.Policy{}, &api.Error{Code: api.ExitUsage, Message: err.Error(), Hint: "mend it; sbxd config check names every fault"}
	}
	if r.Network == "open" && !cfg.Network.AllowOpen {
		return session.Policy{}, &api.Error{
			Code: api.ExitDenied, Message: "network open: the admin's configuration does not allow it",
			Hint: "allow_open = true below [network] in " + config.AdminFile,
		}
	}
	p := policyOf(cfg)
	p.StateDirs = a.ownFiles(cfg, r.Home.Real)
	p.Agent, err = agentOf(cfg, r.Agent)
	return p, err
}

// agentOf is an agent's profile with the configuration's changes; nil where it has
// none.
func agentOf(cfg config.Config, name string) (*masks.Agent, error) {
	change, ok := cfg.Agents[name]
	if !ok {
		return nil, nil
	}
	profile, ok := masks.FindAgent(name)
	if !ok {
		profile.Name = name
	}
	profile, err := profile.Override(change.Paths, change.Seed, change.Env)
	if err != nil {
		return nil, usage{err}
	}
	return &profile, nil
}

// ownFiles are the places of the configuration and of the API socket. No session may
// see them; state root and runtime directory are known to the daemon.
func (a *app) ownFiles(cfg config.Config, home string) []string {
	src := a.sources(config.Flags{})
	files := []string{filepath.Dir(config.AdminFile), filepath.Join(home, ".config/sbxd")}
	for _, f := range []string{src.Only, cfg.Socket} {
		if f != "" {
			files = append(files, f)
		}
	}
	return files
}

// runtimeDir is where the sockets of sessions are: beside the API socket in its usual
// place, or within a state root that is not the usual one, so that two daemons share
// nothing.
func (a *app) runtimeDir(state string) string {
	uid := os.Getuid()
	if state != session.DefaultRoot(uid) {
		return filepath.Join(state, "run")
	}
	return api.RuntimeDir(uid, a.getenv, state)
}

// newLog writes one JSON object a line, none left out: the log is also what a fault is
// found by, and zap's usual sampling would drop the line that matters.
func newLog(w *os.File) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if isTerminal(w) {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(w), zap.InfoLevel))
}
