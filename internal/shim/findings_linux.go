package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/scratch"
	"github.com/sbxd/sbxd/session"
)

// ProbeStage is the stage that tries bubblewrap as the session's user.
const ProbeStage = "bwrap-probe"

// found is what is known of one bubblewrap, as a certain file.
type found struct {
	identity bwrap.Identity
	findings bwrap.Findings
}

// Findings returns what the bubblewrap at program can do for the session's user. It is
// tried once; again when the file changes.
func (l *Launcher) Findings(ctx context.Context, program string, cred session.Cred) (bwrap.Findings, error) {
	program, err := bwrap.Find(program)
	if err != nil {
		return bwrap.Findings{}, fmt.Errorf("%w: %w", session.ErrRefused, err)
	}
	identity, err := bwrap.Identify(program)
	if err != nil {
		return bwrap.Findings{}, fmt.Errorf("look at bubblewrap: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock() // one that waits here would only ask the same
	if l.found != nil && l.found.identity == identity {
		return l.found.findings, nil
	}
	f, err := probeAs(ctx, program, cred)
	if err == nil {
		l.found = &found{identity, f}
	}
	return f, err
}

// answer is what the stage prints.
type answer struct {
	Findings bwrap.Findings
	Refused  string // why bubblewrap cannot be used here
	Error    string
}

func probeAs(ctx context.Context, program string, cred session.Cred) (bwrap.Findings, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ProbeStage, program)
	cmd.Dir, cmd.Env = "/", stageEnviron(ProbeStage)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(cred), Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return bwrap.Findings{}, fmt.Errorf("try bubblewrap: %w %s", err, said.Bytes())
	}
	var a answer
	if err := holder.Decode(&out, &a); err != nil {
		return bwrap.Findings{}, fmt.Errorf("try bubblewrap: %w", err)
	}
	switch {
	case a.Refused != "":
		return a.Findings, fmt.Errorf("%w: %s", session.ErrRefused, a.Refused)
	case a.Error != "":
		return a.Findings, errors.New(a.Error)
	}
	return a.Findings, nil
}

// ProbeMain is the stage: it tries the bubblewrap of its only argument in a directory
// of its own and prints what it found.
func ProbeMain() int {
	if len(os.Args) != 3 {
		return 2
	}
	dir, err := scratch.Make()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = dir.Remove() }()
	var a answer
	a.Findings, err = bwrap.Probe(context.Background(), os.Args[2], dir.Path)
	var p *bwrap.ProbeError
	switch {
	case errors.As(err, &p):
		a.Refused = p.Error()
	case err != nil:
		a.Error = err.Error()
	}
	if err := holder.Encode(os.Stdout, a); err != nil {
		return 1
	}
	return 0
}
