package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/probe"
)

// build is what this binary says about itself and the machine (version --json).
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Time    string `json:"time,omitempty"`
	Dirty   bool   `json:"dirty,omitempty"`
	Go      string `json:"go"`
	API     string `json:"api"`
	Kernel  string `json:"kernel"`
	Bwrap   string `json:"bwrap,omitempty"` // empty: not installed
	// Features tells what this kernel offers to this user, by the names of sbxd doctor.
	Features map[string]bool `json:"features"`
}

func newVersion(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version; with --json also what this machine offers",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !asJSON {
				return printVersion(a)
			}
			b := buildInfo()
			b.Kernel, b.Bwrap = kernelName(), bwrapVersion(c.Context())
			b.Features = features()
			return printJSON(a.out, b)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print everything as JSON")
	return help(c)
}

// printVersion is also what `sbxd --version` does.
func printVersion(a *app) error {
	b := buildInfo()
	_, err := fmt.Fprintln(a.out, strings.TrimSpace("sbxd "+b.Version+" "+b.Commit))
	return err
}

func buildInfo() build {
	b := build{Version: "unknown", Go: runtime.Version(), API: api.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

func kernelName() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

// bwrapVersion asks the bubblewrap in PATH; it answers in milliseconds or not at all.
func bwrapVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "bwrap", "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "bubblewrap"))
}

func features() map[string]bool {
	_, landlock := probe.LandlockABI()
	return map[string]bool{
		"fuse":           probe.Fuse() == nil,
		"landlock":       landlock == nil,
		"seccomp-notify": probe.SeccompNotify() == nil,
		"tun":            probe.Tun() == nil,
		"userns":         probe.UserNS() == nil,
	}
}
