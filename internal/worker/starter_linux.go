package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/session"
)

// Starter starts workers. The zero value is ready; its methods are safe for concurrent
// use.
type Starter struct {
	// noNS: this host refuses us user namespaces.
	noNS atomic.Bool
}

// Patience with a worker: it ends by itself when its work is done; after the caller
// gave up it has a moment to undo, and is then killed.
const endDelay = 10 * time.Second

// Do runs one operation as the owner of the session in w, and decodes its answer into
// out, which may be nil. An operation may fail and still answer (a landing that was
// planned and met a conflict): then both come back.
//
// The worker lives in a user namespace of its own, in which its uid is the same one and
// CAP_DAC_OVERRIDE counts, so that a file the agent gave mode 000 can be read. It gets
// nothing by that which its uid could not take with a chmod. Where such a namespace
// cannot be had, it works without.
func (s *Starter) Do(ctx context.Context, op string, w session.Work, out any) error {
	in, err := json.Marshal(request{Op: op, Work: w})
	if err != nil {
		return fmt.Errorf("encoding the work: %w", err)
	}
	cred := w.Record.Cred()
	if cred.UID == 0 {
		return fmt.Errorf("working for uid 0: %w", session.ErrRefused)
	}
	if !s.noNS.Load() && !feature.Off("worker-userns") {
		err := s.run(ctx, in, attr(cred, true), out)
		if !nsRefused(err) {
			return err
		}
		s.noNS.Store(true)
	}
	return s.run(ctx, in, attr(cred, false), out)
}

// startError is a worker that could not be started at all.
type startError struct{ err error }

func (e *startError) Error() string { return "starting a worker: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// nsRefused reports whether a start failed as it does on a host that forbids user
// namespaces (EPERM), has a limit on them (ENOSPC), or knows none (EINVAL).
func nsRefused(err error) bool {
	var start *startError
	return errors.As(err, &start) &&
		(errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES))
}

func attr(c session.Cred, ns bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	root := os.Geteuid() == 0
	if root {
		a.Credential = &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID), Groups: groups(c)}
	}
	if !ns {
		return a
	}
	a.Cloneflags = unix.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: c.UID, HostID: c.UID, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: c.GID, HostID: c.GID, Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_DAC_OVERRIDE}
	if root {
		a.GidMappingsEnableSetgroups = true
		for _, g := range c.Groups {
			if g != c.GID {
				a.GidMappings = append(a.GidMappings, syscall.SysProcIDMap{ContainerID: g, HostID: g, Size: 1})
			}
		}
	}
	return a
}

func groups(c session.Cred) []uint32 {
	var gs []uint32
	for _, g := range c.Groups {
		gs = append(gs, uint32(g))
	}
	return gs
}

func (s *Starter) run(ctx context.Context, in []byte, attr *syscall.SysProcAttr, out any) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Stage)
	cmd.Args[0] = "sbxd"
	cmd.Dir = "/"
	cmd.Env = environ()
	cmd.SysProcAttr = attr
	cmd.Stdin = bytes.NewReader(in)
	stdout, stderr := &limited{max: maxAnswer}, &limited{max: 4 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = endDelay
	if err := cmd.Start(); err != nil {
		return &startError{err}
	}
	werr := cmd.Wait()
	if cause := context.Cause(ctx); cause != nil && werr != nil {
		return fmt.Errorf("waiting for a worker: %w", cause)
	}
	var a answer
	if werr == nil && (stdout.over || json.Unmarshal(stdout.b.Bytes(), &a) != nil) {
		werr = errNoAnswer
	}
	if werr != nil {
		return fmt.Errorf("working as uid %d: %w %s", credUID(attr), werr, strings.TrimSpace(stderr.b.String()))
	}
	if out != nil && len(a.Out) > 0 {
		if err := json.Unmarshal(a.Out, out); err != nil {
			return fmt.Errorf("decoding a worker's answer: %w", err)
		}
	}
	if a.Err != nil {
		return a.Err
	}
	return nil
}

func credUID(a *syscall.SysProcAttr) int {
	if a.Credential != nil {
		return int(a.Credential.Uid)
	}
	return os.Geteuid()
}

// environ is a worker's whole environment: its stage, and what test builds read.
func environ() []string {
	env := []string{"SBXD_STAGE=" + Stage, "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}
	for _, name := range []string{"SBXD_FAULT", "SBXD_FAULT_LOG", "SBXD_TEST_WITHOUT"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// limited keeps what is written, up to max bytes.
type limited struct {
	b    bytes.Buffer
	max  int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > l.max {
		l.over = true
		p, n := p[:l.max-l.b.Len()], len(p)
		l.b.Write(p)
		return n, nil
	}
	return l.b.Write(p)
}
