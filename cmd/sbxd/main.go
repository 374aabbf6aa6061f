// Command sbxd runs coding agents in sessions: bubblewrap sandboxes with
// copy-on-write views of HOME and a project. This package is the command line, one
// file a command, and the entry of every process that the daemon starts.
//
// It knows flags, terminals and exit codes. It decides nothing: it asks the daemon
// through package api, or the package that owns the matter, and prints the answer.
package main

import (
	"context"
	"os"
)

func main() {
	if stage := stageOf(os.Args, os.Getenv, os.Getpid()); stage != nil {
		exit(stage())
	}
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	err := newRoot(a, os.Args[1:]...).ExecuteContext(context.Background())
	report(os.Stderr, err)
	exit(exitCode(err))
}
