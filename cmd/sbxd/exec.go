package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// execOptions say how a command runs in a session.
type execOptions struct {
	tty      bool
	cwd      string
	env      []string
	envFiles []string
	detach   bool
	attach   string
}

func (o *execOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal of its own")
	f.StringVar(&o.cwd, "cwd", "", "working `DIR` inside (default: the project)")
	f.BoolVar(&o.detach, "detach", false, "print the command's id and let it run on")
}

func newExec(a *app) *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:   "exec [-t] [flags] SESSION -- COMMAND [ARG...]",
		Short: "Run a command in a session",
		Long: "Standard input is passed on and signals are forwarded; the exit code is the command's own. " +
			"With -t the command has a terminal: job control, Ctrl-C and the size of yours. " +
			"Without -t your terminal's settings are not touched. An error that has a code of its own below 125 " +
			"comes before the command was started.",
		Example: "  sbxd exec $S -- go test ./...\n  sbxd exec -t $S -- bash",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" || c.ArgsLenAtDash() == 0 {
				return usagef("sbxd exec: which session?")
			}
			return wantCommand(c, args[1:], o.attach)
		},
		ValidArgsFunction: argument(0, a.sessions(session.Alive), true),
		RunE: func(c *cobra.Command, args []string) error {
			r, ctx := newRunner(c.Context(), a, &o)
			client, err := a.client()
			if err != nil {
				return err
			}
			return r.execute(ctx, client, args[0], args[1:])
		},
	}
	o.addFlags(c.Flags())
	c.Flags().StringArrayVar(&o.env, "env", nil, "`NAME[=VALUE]` for this command; may be given again")
	c.Flags().StringArrayVar(&o.envFiles, "env-file", nil, "`FILE` of NAME=VALUE lines; may be given again")
	c.Flags().StringVar(&o.attach, "attach", "", "follow the running command `ID` instead of starting one")
	return help(afterDashes(c), execCodes...)
}

// afterDashes says where the options of the command that is run belong.
func afterDashes(c *cobra.Command) *cobra.Command {
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usagef("%w (options of the command that is run go after --)", err)
	})
	return c
}

var execCodes = []int{
	api.ExitRefused, api.ExitBusy, api.ExitNotFound, api.ExitDenied, api.ExitNoDaemon,
	api.ExitExec, api.ExitNotExec, api.ExitNoCommand,
}

func wantCommand(c *cobra.Command, command []string, attach string) error {
	switch {
	case attach != "" && len(command) > 0:
		return usagef("%s: --attach follows a command and takes none", c.CommandPath())
	case attach == "" && (len(command) == 0 || command[0] == ""):
		return usagef("%s: which command? give it after --", c.CommandPath())
	}
	return nil
}

// execute runs one command in a session and returns its exit code as a status.
func (r *runner) execute(ctx context.Context, client *api.Client, id string, command []string) error {
	a, o := r.app, r.options
	env, err := environment(a.getenv, o.envFiles, o.env)
	if err != nil {
		return err
	}
	req := api.ExecRequest{Argv: command, Cwd: api.Word(o.cwd), Env: env, TTY: o.tty, Detach: o.detach, Attach: o.attach, Stdin: !o.detach}
	defer r.close()
	if err := r.open(&req); err != nil {
		return ours(err)
	}
	<-r.watched
	exit, err := client.Exec(ctx, id, req, r.streams)
	r.close() // before anything is printed
	if err != nil && r.started.Load() {
		return failed(err) // its other codes say that the command never was started
	}
	if err != nil {
		return ours(err)
	}
	if exit.Lost > 0 {
		_, _ = fmt.Fprintf(a.err, "sbxd: %d bytes of output are lost: they came faster than the log could keep them, or its disk is full\n", exit.Lost)
	}
	if o.detach {
		_, err := fmt.Fprintln(a.out, exit.Exec)
		return err
	}
	return done(exit.Code)
}

// done turns an exit code into what exitCode understands.
func done(code int) error {
	if code == api.ExitOK {
		return nil
	}
	return status(code)
}

// ours marks a failure of no special kind as ours, not the command's.
func ours(err error) error {
	if exitCode(err) != api.ExitFailed {
		return err
	}
	return failed(err)
}

// failed is an error of ours under a command.
func failed(err error) error {
	e := &api.Error{Code: api.ExitExec, Message: err.Error()}
	if a := new(api.Error); errors.As(err, &a) {
		e.Message, e.Hint = a.Message, a.Hint
	}
	return e
}

// runner holds the caller's side of a running command: streams, terminal, signals.
type runner struct {
	app     *app
	options *execOptions
	term    *terminal // nil without -t, or without a terminal
	streams api.Streams
	resize  chan api.Size
	forward chan string
	caught  chan os.Signal
	watched chan struct{} // closed when signals are caught
	started atomic.Bool
	over    atomic.Bool
}

// newRunner returns a runner that has the signals in a moment: to catch them takes up to
// half a millisecond, for which the way to the command need not wait. Until a command
// runs they cancel ctx.
func newRunner(ctx context.Context, a *app, o *execOptions) (*runner, context.Context) {
	r := &runner{
		app: a, options: o,
		// One slot: only the last size counts.
		resize:  make(chan api.Size, 1),
		forward: make(chan string, 8),
		caught:  make(chan os.Signal, 8),
		watched: make(chan struct{}),
	}
	if o.tty {
		r.term = openTerminal(a.in, a.out)
	}
	r.streams = api.Streams{
		Stdin: a.in, Stdout: a.out, Stderr: a.err, Resize: r.resize, Signals: r.forward,
		Started: func(string, int) { r.started.Store(true) },
	}
	if o.detach {
		r.streams.Stdin = nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		signal.Notify(r.caught, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
		close(r.watched)
		r.watch(cancel)
	}()
	return r, ctx
}

// open takes the terminal, with -t.
func (r *runner) open(req *api.ExecRequest) error {
	if req.TTY {
		req.Rows, req.Cols = r.term.size()
		r.resized() // for a command that had another terminal before
	}
	if r.term == nil {
		keepForeground()
		return nil
	}
	signal.Notify(r.caught, unix.SIGWINCH, unix.SIGCONT)
	if err := r.term.raw(); err != nil {
		return fmt.Errorf("set the terminal: %w", err)
	}
	if req.Attach != "" {
		r.resized() // the command has the size of whoever was there before
	}
	return nil
}

// close gives the terminal back. The signals are kept: letting them go takes half a
// millisecond, and watch knows what they would do.
func (r *runner) close() {
	r.over.Store(true)
	r.term.restore()
}

// watch forwards signals to the command; before it runs, they end the attempt, and after
// it has ended, this process.
func (r *runner) watch(cancel context.CancelCauseFunc) {
	for s := range r.caught {
		n := s.(syscall.Signal)
		switch {
		case r.over.Load() && signalNames[n] != "":
			exit(128 + int(n))
		case r.over.Load():
		case n == unix.SIGWINCH:
			r.resized()
		case n == unix.SIGCONT:
			// Whoever stopped us took the terminal back.
			_ = r.term.raw()
			r.resized()
		case !r.started.Load():
			cancel(status(128 + int(n)))
		default:
			select {
			case r.forward <- signalNames[n]:
			default: // eight are under way and nobody takes them
			}
		}
	}
}

var signalNames = map[syscall.Signal]string{
	unix.SIGINT: "INT", unix.SIGTERM: "TERM", unix.SIGHUP: "HUP", unix.SIGQUIT: "QUIT",
}

func (r *runner) resized() {
	rows, cols := r.term.size()
	select {
	case <-r.resize:
	default:
	}
	select {
	case r.resize <- api.Size{Rows: rows, Cols: cols}:
	default:
	}
}
