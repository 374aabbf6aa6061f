package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxd/sbxd/internal/hostpath"
)

// adminOnly are the keys that a user's file may not set, with the reason.
var adminOnly = map[string]string{
	"carves":             "a carve-out lets sessions write real files",
	"network.allow_open": "an open network reaches whatever the host reaches",
	"run_as":             "it decides whose rights a session has",
}

// Modes are what a path of an agent's profile can be.
var Modes = []string{"copy", "live", "none", "private", "ro"}

// validate looks at the values of one file.
func (c *Config) validate(d *document, admin bool) []error {
	var errs []error
	bad := func(key, format string, a ...any) { errs = append(errs, d.fault(key, format, a...)) }
	for _, key := range sortedKeys(adminOnly) {
		if d.has(key) && !admin {
			bad(key, "may be set in %s only: %s", AdminFile, adminOnly[key])
		}
	}
	for _, key := range sortedKeys(c.lists()) {
		for i, p := range *c.lists()[key] {
			err := checkPath(p.Text)
			if key == "masks" && errors.Is(err, hostpath.ErrPattern) {
				_, err = hostpath.ParsePattern(p.Text, anyHome)
			}
			if err != nil {
				bad(elem(key, i), "%v", err)
			}
		}
	}
	for i, name := range c.Env {
		if !isEnvName(name) {
			bad(elem("env", i), "%.80q is no name of a variable; write letters, digits and _", name)
		}
	}
	if d.has("home") {
		switch c.Home {
		case "masked":
		case "listed", "empty":
			bad("home", "%q is not built yet; allowed: masked", c.Home)
		default:
			bad("home", "is %.40q; allowed: masked", c.Home)
		}
	}
	if d.has("network.default") && c.Network.Default != "off" && c.Network.Default != "open" {
		bad("network.default", "is %.40q; allowed: off, open", c.Network.Default)
	}
	if d.has("run_as") && (c.RunAs == "" || c.RunAs == "root" || strings.Trim(c.RunAs, "0") == "") {
		bad("run_as", "is %.40q; name a user other than root, because a session never runs as root", c.RunAs)
	}
	for _, l := range []struct {
		key       string
		v, lo, hi int
	}{
		{"limits.changes_mib", c.Limits.ChangesMiB, 0, 1 << 24},
		{"limits.log_mib", c.Limits.LogMiB, 1, 65536},
		{"limits.shm_mib", c.Limits.ShmMiB, 1, 1 << 20},
		{"limits.tmp_mib", c.Limits.TmpMiB, 1, 1 << 20},
	} {
		if d.has(l.key) && (l.v < l.lo || l.v > l.hi) {
			bad(l.key, "is %d; allowed: %d to %d MiB", l.v, l.lo, l.hi)
		}
	}
	if n := c.Limits.ChangedFiles; n < 0 || n > 1<<30 {
		bad("limits.changed_files", "is %d; allowed: 0 (no bound) to %d", n, 1<<30)
	}
	for _, name := range sortedKeys(c.Agents) {
		c.Agents[name].validate("agents."+name, name, admin, bad)
	}
	return errs
}

func (a Agent) validate(key, name string, admin bool, bad func(string, string, ...any)) {
	if !isAgentName(name) {
		bad(key, "%.80q is no name of an agent; write a-z, 0-9 and -, at most 63", name)
	}
	for _, p := range sortedKeys(a.Paths) {
		at := key + ".paths." + p
		if err := checkPath(p); err != nil {
			bad(at, "%v", err)
		}
		switch mode := a.Paths[p]; {
		case !slices.Contains(Modes, mode):
			bad(at, "is %.40q; allowed: %s", mode, strings.Join(Modes, ", "))
		case mode == "live" && !admin:
			bad(at, "may be live in %s only: %s", AdminFile, adminOnly["carves"])
		}
	}
	for i, p := range a.Seed {
		if err := checkPath(p); err != nil {
			bad(elem(key+".seed", i), "%v", err)
		}
	}
	for _, n := range sortedKeys(a.Env) {
		if !isEnvName(n) {
			bad(key+".env."+n, "%.80q is no name of a variable; write letters, digits and _", n)
		}
		if strings.IndexByte(a.Env[n], 0) >= 0 {
			bad(key+".env."+n, "holds a NUL byte")
		}
	}
}

// together looks at values that may come from different files.
func (c *Config) together() []error {
	if c.Network.Default == "open" && !c.Network.AllowOpen {
		return []error{&Fault{File: c.Origin("network.default"), Key: "network.default", Message: "is open, but network.allow_open is not true in " + AdminFile}}
	}
	return nil
}

func (c *Config) warnings() []Warning {
	var out []Warning
	for _, key := range sortedKeys(c.lists()) {
		seen := map[string]string{}
		for _, p := range *c.lists()[key] {
			if from, ok := seen[p.Text]; ok {
				out = append(out, Warning{p.From, p.Text + " is in " + key + " already, by " + from})
				continue
			}
			seen[p.Text] = p.From
		}
	}
	return out
}

// resolve makes the paths of sbxd's own things absolute.
func (c *Config) resolve(home string) []error {
	var errs []error
	for _, p := range []struct {
		key string
		at  *string
	}{{"bwrap", &c.Bwrap}, {"socket", &c.Socket}, {"state", &c.State}} {
		if *p.at == "" {
			continue
		}
		fault := func(msg string) {
			errs = append(errs, &Fault{File: c.Origin(p.key), Key: p.key, Message: msg})
		}
		path := *p.at
		if rest, ok := strings.CutPrefix(path, "~/"); ok && filepath.IsAbs(home) {
			path = filepath.Join(home, rest)
		}
		switch {
		case strings.IndexByte(path, 0) >= 0:
			fault("holds a NUL byte")
		case !filepath.IsAbs(path):
			fault("is not absolute; write an absolute path or ~/…")
		case slices.Contains(strings.Split(*p.at, "/"), ".."):
			fault(`holds "..", which a link can turn elsewhere; write the path without it`)
		case filepath.Clean(path) == "/":
			fault("is the root directory; name something below it")
		default:
			*p.at = filepath.Clean(path)
		}
	}
	return errs
}

// checkPath reads a path the way a session will, with any HOME and no project.
func checkPath(text string) error {
	_, err := hostpath.Parse(text, anyHome)
	return err
}

// anyHome stands for the HOME of whoever has a session.
var anyHome = hostpath.Base{Home: "/home"}

func elem(key string, i int) string {
	return key + "[" + strconv.Itoa(i) + "]"
}

func isEnvName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func isAgentName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-' && i > 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= 63
}
