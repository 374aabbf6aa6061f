package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// MaxFile bounds a configuration file, in bytes.
const MaxFile = 1 << 20

// Sources are where a configuration comes from, weakest first. A file that is not
// there is no error, except Only.
type Sources struct {
	Admin string // everything may be set; empty: not read
	User  string // without the keys that are the admin's; empty: not read
	// Only is read instead of both, with the rights of Admin: whoever starts the daemon
	// vouches for it.
	Only string
	// Home is what ~ means in state, socket and bwrap.
	Home  string
	Flags Flags
}

// Flags are values of the command line and the environment; they win.
type Flags struct {
	State, Socket, RunAs string
}

// Warning is something that works, but maybe not as meant.
type Warning struct{ From, Text string }

func (w Warning) String() string { return w.From + ": " + w.Text }

// Usual returns the sources of a daemon or command of uid: SBXD_CONFIG instead of the
// usual files, SBXD_STATE and SBXD_SOCKET as flags. Root has no user's file.
func Usual(uid int, getenv func(string) string) Sources {
	s := Sources{Admin: AdminFile, Only: getenv("SBXD_CONFIG"), Home: getenv("HOME")}
	if uid != 0 && filepath.IsAbs(s.Home) {
		s.User = filepath.Join(s.Home, ".config/sbxd/config.toml")
	}
	s.Flags.State, s.Flags.Socket = getenv("SBXD_STATE"), getenv("SBXD_SOCKET")
	return s
}

type layer struct {
	file  string
	admin bool
	must  bool // has to be there
}

// Load reads all sources. State, Socket and Bwrap are absolute afterwards, or empty.
// The error joins every Fault of every source.
func Load(s Sources) (Config, []Warning, error) {
	c := Default()
	c.from = map[string]string{}
	layers := []layer{{file: s.Admin, admin: true}, {file: s.User}}
	if s.Only != "" {
		layers = []layer{{file: s.Only, admin: true, must: true}}
	}
	var errs []error
	for _, l := range layers {
		if l.file == "" {
			continue
		}
		data, err := readFile(l)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if data != nil {
			errs = append(errs, c.add(l, data))
		}
	}
	c.addFlags(s.Flags)
	errs = append(errs, c.resolve(s.Home)...)
	errs = append(errs, c.together()...)
	return c, c.warnings(), errors.Join(errs...)
}

// readFile reads one file. A file that other users may write is refused: it would let
// them decide what is hidden.
func readFile(l layer) ([]byte, error) {
	fail := func(format string, a ...any) error {
		return &Fault{File: l.file, Message: fmt.Sprintf(format, a...)}
	}
	f, err := os.OpenFile(l.file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) && !l.must {
		return nil, nil
	}
	if err != nil {
		return nil, fail("cannot be read: %v", errors.Unwrap(err))
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fail("cannot be looked at: %v", err)
	}
	sys, _ := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return nil, fail("is no regular file")
	case st.Size() > MaxFile:
		return nil, fail("is larger than %d bytes", MaxFile)
	case sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return nil, fail("belongs to uid %d; it has to be yours or root's", sys.Uid)
	case st.Mode().Perm()&0o002 != 0:
		return nil, fail("may be written by everybody; run: chmod o-w %s", l.file)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fail("cannot be read: %v", err)
	}
	if len(data) > MaxFile {
		return nil, fail("is larger than %d bytes", MaxFile)
	}
	return data, nil
}

// add merges one file into c.
func (c *Config) add(l layer, data []byte) error {
	var file Config
	d, err := decode(l.file, data, &file)
	if err != nil {
		return err
	}
	if err := errors.Join(file.validate(d, l.admin)...); err != nil {
		return err
	}
	for key, to := range map[string]struct{ to, from *string }{
		"state":           {&c.State, &file.State},
		"socket":          {&c.Socket, &file.Socket},
		"run_as":          {&c.RunAs, &file.RunAs},
		"bwrap":           {&c.Bwrap, &file.Bwrap},
		"home":            {&c.Home, &file.Home},
		"network.default": {&c.Network.Default, &file.Network.Default},
	} {
		if d.has(key) {
			*to.to = *to.from
			c.from[key] = d.origin(key)
		}
	}
	for key, to := range map[string]struct{ to, from *int }{
		"limits.changed_files": {&c.Limits.ChangedFiles, &file.Limits.ChangedFiles},
		"limits.changes_mib":   {&c.Limits.ChangesMiB, &file.Limits.ChangesMiB},
		"limits.log_mib":       {&c.Limits.LogMiB, &file.Limits.LogMiB},
		"limits.shm_mib":       {&c.Limits.ShmMiB, &file.Limits.ShmMiB},
		"limits.tmp_mib":       {&c.Limits.TmpMiB, &file.Limits.TmpMiB},
	} {
		if d.has(key) {
			*to.to = *to.from
			c.from[key] = d.origin(key)
		}
	}
	if d.has("network.allow_open") {
		c.Network.AllowOpen = file.Network.AllowOpen
		c.from["network.allow_open"] = d.origin("network.allow_open")
	}
	for key, list := range file.lists() {
		for i := range *list {
			(*list)[i].From = d.origin(fmt.Sprintf("%s[%d]", key, i))
		}
		to := c.lists()[key]
		*to = append(*to, *list...)
	}
	if d.has("env") {
		c.from["env"] = d.origin("env")
		for _, name := range file.Env {
			if !slices.Contains(c.Env, name) {
				c.Env = append(c.Env, name)
			}
		}
	}
	for name, a := range file.Agents {
		c.addAgent(name, a)
		c.from["agents."+name] = d.origin("agents." + name)
	}
	return nil
}

// lists are the lists of paths by key. A layer adds to them and takes nothing away.
func (c *Config) lists() map[string]*[]Path {
	return map[string]*[]Path{
		"masks": &c.Masks, "final_masks": &c.FinalMasks, "carves": &c.Carves, "read_only": &c.ReadOnly,
	}
}

// addAgent lays a over what is there: single paths and variables win, seeds add up.
func (c *Config) addAgent(name string, a Agent) {
	if c.Agents == nil {
		c.Agents = map[string]Agent{}
	}
	old := c.Agents[name]
	merged := Agent{Paths: maps.Clone(old.Paths), Env: maps.Clone(old.Env), Seed: append(slices.Clone(old.Seed), a.Seed...)}
	if merged.Paths == nil {
		merged.Paths = map[string]string{}
	}
	if merged.Env == nil {
		merged.Env = map[string]string{}
	}
	maps.Copy(merged.Paths, a.Paths)
	maps.Copy(merged.Env, a.Env)
	c.Agents[name] = merged
}

func (c *Config) addFlags(f Flags) {
	for key, v := range map[string]struct {
		to   *string
		from string
	}{"state": {&c.State, f.State}, "socket": {&c.Socket, f.Socket}, "run_as": {&c.RunAs, f.RunAs}} {
		if v.from != "" {
			*v.to = v.from
			c.from[key] = "--" + strings.ReplaceAll(key, "_", "-") + " or environment"
		}
	}
}
