package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/sbxd/sbxd/api"
)

// codes is the promise of docs/cli.md, and what EXIT STATUS of each help text is made
// from. A retired number is never used again.
var codes = []struct {
	code  int
	means string
}{
	{api.ExitOK, "done"},
	{api.ExitFailed, "failed"},
	{api.ExitUsage, "usage or configuration"},
	{api.ExitNothing, "nothing to do"},
	{api.ExitConflict, "conflict: the host changed what would land"},
	{api.ExitGate, "a gate needs a yes"},
	{api.ExitDrift, "drift: what would land is not what was reviewed"},
	{api.ExitRefused, "refused, or unsupported on this host"},
	{api.ExitBusy, "busy: somebody else holds it"},
	{api.ExitAttention, "needs a person's attention"},
	{api.ExitNotFound, "no such session, landing or path"},
	{api.ExitDenied, "not permitted"},
	{api.ExitNoDaemon, "no daemon answers"},
	{api.ExitExec, "exec, run: sbxd itself failed"},
	{api.ExitNotExec, "exec, run: the command cannot be executed"},
	{api.ExitNoCommand, "exec, run: the command was not found"},
}

// status is an exit code without a message: what the command of exec or run ended
// with, or an answer that was already printed.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usage is a mistake on the command line.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// exitCode returns the code that err stands for.
func exitCode(err error) int {
	var (
		s status
		a *api.Error
		u usage
	)
	switch {
	case err == nil:
		return api.ExitOK
	case errors.As(err, &s):
		return int(s)
	case errors.As(err, &a):
		return a.Code
	case errors.As(err, &u):
		return api.ExitUsage
	}
	return api.ExitFailed
}

// report prints err for a person: what, which rule, and on a second line what to do
// next. A bare status was already said.
func report(w io.Writer, err error) {
	var s status
	if err == nil || errors.As(err, &s) {
		return
	}
	message, hint := err.Error(), ""
	var a *api.Error
	if errors.As(err, &a) && a.Hint != "" {
		message, hint = strings.TrimSuffix(message, " ("+a.Hint+")"), a.Hint
	}
	if hint == "" && strings.Contains(message, syscall.ENOSPC.Error()) {
		hint = "make room on that disk"
	}
	message = strings.ReplaceAll(message, "\n", "; ") // of several that were joined
	_, _ = fmt.Fprintln(w, "sbxd:", visible(message))
	if hint != "" {
		_, _ = fmt.Fprintln(w, "  next:", visible(hint))
	}
}

// exit ends the process; nothing else in this program does.
func exit(code int) { os.Exit(code) }
