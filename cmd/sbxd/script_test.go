package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sbxd/sbxd/internal/testbox"
)

type boxKey struct{}

// TestScript runs the manual: each script is a machine of its own (see box), with
// HOME at $HOME and a project at $PROJECT. The daemon runs when the script begins.
// Beside testscript's commands there are
//
//	capture NAME [RE]   the last standard output, or what RE's group matched, into a variable
//	status CODE CMD...  run a command that has to end with this code
//	daemon [stop|kill|start]
//
// and the program owner, which runs the rest of its line as the project's owner.
func TestScript(t *testing.T) {
	testbox.Need(t, needSession...)
	uid, gid := testbox.AsUser(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		WorkdirRoot:         testbox.Root(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup:               func(e *testscript.Env) error { return setUpScript(t, e, uid, gid) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"capture": capture,
			"status":  wantStatus,
			"daemon":  daemonCmd,
		},
	})
}

func setUpScript(t *testing.T, e *testscript.Env, uid, gid int) error {
	b, err := newBox(e.WorkDir, uid, gid)
	if err != nil {
		return err
	}
	for _, kv := range b.env {
		k, v, _ := strings.Cut(kv, "=")
		e.Setenv(k, v)
	}
	e.Setenv("PROJECT", b.project)
	e.Setenv("UID", fmt.Sprint(b.uid))
	e.Cd = b.project
	e.Values[boxKey{}] = b
	if err := b.serve(); err != nil {
		return err
	}
	e.Defer(func() {
		err := b.clean()
		if rerr := os.RemoveAll(b.dir); err == nil {
			err = rerr
		}
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(e.WorkDir), err)
		}
	})
	return nil
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: capture NAME [RE]")
	}
	out := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 2 {
		m := regexp.MustCompile(args[1]).FindStringSubmatch(out)
		if len(m) < 2 {
			ts.Fatalf("no %s in %s", args[1], out)
		}
		out = m[1]
	}
	if out == "" {
		ts.Fatalf("nothing was printed")
	}
	ts.Setenv(args[0], out)
}

func wantStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s ended with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

func daemonCmd(ts *testscript.TestScript, neg bool, args []string) {
	b := ts.Value(boxKey{}).(*box)
	if neg || len(args) == 0 {
		ts.Fatalf("usage: daemon stop|kill|start [FLAG...]")
	}
	switch args[0] {
	case "stop":
		ts.Check(b.end(syscall.SIGTERM))
	case "kill":
		ts.Check(b.end(syscall.SIGKILL))
	case "start":
		ts.Check(b.serve(args[1:]...))
	default:
		ts.Fatalf("daemon %s?", args[0])
	}
}
