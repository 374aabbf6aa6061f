package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed sbxd.example.toml
var example []byte

//go:embed schema.json
var schema []byte

// Example returns a file with every key, its default and what it means.
func Example() []byte { return slices.Clone(example) }

// Schema returns the JSON schema of a configuration file, for editors.
func Schema() []byte { return slices.Clone(schema) }

// Setting is one value and who decided it.
type Setting struct {
	Key, Value string
	From       string // "default", "/etc/sbxd/config.toml:3", "--state or environment"
}

// Explain lists every setting, sorted by key.
func (c *Config) Explain() []Setting {
	out := []Setting{
		c.setting("bwrap", strconv.Quote(c.Bwrap)),
		c.setting("env", quoted(c.Env)),
		c.setting("home", strconv.Quote(c.Home)),
		c.setting("limits.changed_files", strconv.Itoa(c.Limits.ChangedFiles)),
		c.setting("limits.changes_mib", strconv.Itoa(c.Limits.ChangesMiB)),
		c.setting("limits.log_mib", strconv.Itoa(c.Limits.LogMiB)),
		c.setting("limits.shm_mib", strconv.Itoa(c.Limits.ShmMiB)),
		c.setting("limits.tmp_mib", strconv.Itoa(c.Limits.TmpMiB)),
		c.setting("network.allow_open", strconv.FormatBool(c.Network.AllowOpen)),
		c.setting("network.default", strconv.Quote(c.Network.Default)),
		c.setting("run_as", strconv.Quote(c.RunAs)),
		c.setting("socket", strconv.Quote(c.Socket)),
		c.setting("state", strconv.Quote(c.State)),
	}
	for key, list := range c.lists() {
		for i, p := range *list {
			out = append(out, Setting{Key: elem(key, i), Value: strconv.Quote(p.Text), From: p.From})
		}
	}
	for name, a := range c.Agents {
		for p, mode := range a.Paths {
			out = append(out, c.setting("agents."+name+".paths."+strconv.Quote(p), strconv.Quote(mode)))
		}
		if len(a.Seed) > 0 {
			out = append(out, c.setting("agents."+name+".seed", quoted(a.Seed)))
		}
		for n := range a.Env {
			out = append(out, c.setting("agents."+name+".env."+n, "…")) // values may be secret
		}
	}
	slices.SortFunc(out, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func (c *Config) setting(key, value string) Setting {
	return Setting{Key: key, Value: value, From: c.Origin(key)}
}

// Origin tells where the value of key, or of the table it is in, came from.
func (c *Config) Origin(key string) string {
	for k := key; k != ""; k = k[:max(strings.LastIndexByte(k, '.'), 0)] {
		if from, ok := c.from[k]; ok {
			return from
		}
	}
	return "default"
}

func quoted(list []string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", s)
	}
	b.WriteByte(']')
	return b.String()
}
