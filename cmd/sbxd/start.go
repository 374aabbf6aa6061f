package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// startOptions are what start and run know about a session that is not there yet.
type startOptions struct {
	project    string
	agent      string
	name       string
	parent     string
	labels     []string
	masks      []string
	carves     []string
	finalMasks []string
	readOnly   []string
	env        []string
	envFiles   []string
	backend    string
	network    string
	runAs      string
}

func (o *startOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.project, "project", ".", "`DIR` that the session works on")
	f.StringVar(&o.agent, "agent", "", "profile of the agent that will run: claude-code, codex, gemini, opencode, …")
	f.StringVar(&o.name, "name", "", "a `NAME` of yours, usable wherever an id is")
	f.StringArrayVar(&o.labels, "label", nil, "`K=V` to find the session by; may be given again")
	f.StringVar(&o.parent, "parent", "", "the `SESSION` that answers this one's questions")
	o.addRuleFlags(f)
	f.StringArrayVar(&o.env, "env", nil, "`NAME[=VALUE]` for every command; without a value, yours; may be given again")
	f.StringArrayVar(&o.envFiles, "env-file", nil, "`FILE` of NAME=VALUE lines; may be given again")
	f.StringVar(&o.backend, "backend", "", "auto, kernel or unionfs (default auto)")
	f.StringVar(&o.network, "network", "", "off or open (default off)")
	f.StringVar(&o.runAs, "run-as", "", "as root: the `USER` whose session it is (default: the daemon's --run-as)")
}

// completeStart completes values of the flags that startOptions added to c.
func completeStart(a *app, c *cobra.Command) {
	completeFlags(c, map[string]completer{
		"agent": a.agents, "parent": a.sessions(session.Alive), "project": directories,
	})
}

// addRuleFlags adds the flags of path rules.
func (o *startOptions) addRuleFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.masks, "mask", nil, "hide `PATH` (also: ~/PATH, or relative to the project); may be given again")
	f.StringArrayVar(&o.carves, "carve", nil, "leave the real `PATH` writable; may be given again")
	f.StringArrayVar(&o.finalMasks, "final-mask", nil, "hide `PATH` again inside a carve-out; may be given again")
	f.StringArrayVar(&o.readOnly, "ro", nil, "show `PATH` of the host read-only; may be given again")
}

func newStart(a *app) *cobra.Command {
	var o startOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "start [--project DIR] [flags]",
		Short: "Start a session and print its id",
		Long: "HOME and the project are copy-on-write views of the real ones; credentials are hidden. " +
			"Nothing that is written inside reaches the real project before `sbxd land`.",
		Example: "  S=$(sbxd start --project ~/work/app --agent claude-code)",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := startSession(ctx, a, client, &o)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, s)
			}
			_, err = fmt.Fprintln(a.out, s.ID)
			return err
		},
	}
	o.addFlags(c.Flags())
	completeStart(a, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole session")
	return help(c, api.ExitRefused, api.ExitBusy, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon)
}

// startSession asks for the session that o describes and tells its warnings.
func startSession(ctx context.Context, a *app, client *api.Client, o *startOptions) (api.Session, error) {
	req, err := o.request(a)
	if err != nil {
		return api.Session{}, err
	}
	s, err := client.Start(ctx, req)
	if err != nil {
		return api.Session{}, err
	}
	a.warn(s)
	return s, nil
}

// request turns flags into the wire type: what depends on the caller's working
// directory and environment is resolved here.
func (o *startOptions) request(a *app) (api.StartRequest, error) {
	if o.project == "" {
		return api.StartRequest{}, usagef("--project is empty; leave it out to take the working directory")
	}
	project, err := absolute(o.project)
	if err != nil {
		return api.StartRequest{}, err
	}
	cfg, err := a.load()
	if err != nil {
		return api.StartRequest{}, faults(a, err)
	}
	passed, err := environment(a.getenv, nil, cfg.Env)
	if err != nil {
		return api.StartRequest{}, err
	}
	env, err := environment(a.getenv, o.envFiles, o.env)
	if err != nil {
		return api.StartRequest{}, err
	}
	if o.network == "" {
		o.network = cfg.Network.Default
	}
	labels, err := pairs(o.labels)
	if err != nil {
		return api.StartRequest{}, err
	}
	return api.StartRequest{
		Project: project, Agent: o.agent, Name: o.name, Labels: labels, Parent: o.parent,
		Masks: o.masks, Carves: o.carves, FinalMasks: o.finalMasks, ReadOnly: o.readOnly,
		Network: o.network, Backend: o.backend, Home: a.getenv("HOME"), Env: lastOfEach(append(passed, env...)), RunAs: o.runAs,
	}, nil
}

// absolute makes a path of the command line absolute without resolving links: the
// daemon keeps the caller's spelling.
func absolute(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", usagef("%q holds a NUL byte", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	return abs, nil
}

func pairs(list []string) (map[string]string, error) {
	var m map[string]string
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usagef("label %q: want KEY=VALUE", kv)
		}
		if m == nil {
			m = make(map[string]string, len(list))
		}
		m[k] = v
	}
	return m, nil
}

// Bounds of --env-file, far above any real one.
const maxEnvFile = 1 << 20

// environment returns NAME=VALUE pairs: those of files first, then those of flags. A
// flag without a value takes the caller's, and is left out when the caller has none.
func environment(getenv func(string) string, files, flags []string) ([]string, error) {
	var out []string
	for _, name := range files {
		lines, err := readEnvFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	for _, e := range flags {
		name, value, given := strings.Cut(e, "=")
		if !envName(name) {
			return nil, usagef("--env: %.40q is not a name for a variable", name)
		}
		if !given {
			if value = getenv(name); value == "" {
				continue
			}
		}
		out = append(out, name+"="+value)
	}
	return out, nil
}

// lastOfEach keeps the last value of each name, in the order of their first mention.
func lastOfEach(env []string) []string {
	at := map[string]int{}
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

// readEnvFile reads NAME=VALUE lines; empty lines and those that begin with # are
// skipped, values are taken as they stand. A fault is told by line, never by value.
func readEnvFile(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("read --env-file: %w", err)
	}
	if len(b) > maxEnvFile {
		return nil, usagef("--env-file %s: %d bytes, more than %d", path, len(b), maxEnvFile)
	}
	var out []string
	for i, l := range strings.Split(string(b), "\n") {
		l = strings.TrimSuffix(l, "\r")
		if strings.TrimSpace(l) == "" || strings.HasPrefix(strings.TrimSpace(l), "#") {
			continue
		}
		name, _, ok := strings.Cut(l, "=")
		if !ok || !envName(name) {
			return nil, usagef("--env-file %s:%d: want NAME=VALUE", path, i+1)
		}
		out = append(out, l)
	}
	return out, nil
}

func envName(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}
