package guest

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/internal/landlock"
	"github.com/sbxd/sbxd/session"
)

// job asks the starter thread for one process.
type job struct {
	command *command
	path    string
	argv    []string
	attr    syscall.ProcAttr

	pid  int
	err  error
	done chan struct{}
}

// startStarter starts the one thread that forks all commands and returns the security
// layers that it could not lay on them. Landlock binds a thread and what it starts; with
// one thread all commands are in one domain, so they can signal each other, and this
// process stays outside of it. The thread never ends.
func (g *guest) startStarter() (missing []string, err error) {
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		missing, err = confine()
		close(ready)
		if err != nil {
			return
		}
		for j := range g.jobs {
			g.fork(j)
			close(j.done)
		}
	}()
	<-ready
	return missing, err
}

// confine prepares the calling thread for its children.
func confine() (missing []string, err error) {
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return nil, fmt.Errorf("clear the signal mask: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("set no_new_privs: %w", err)
	}
	if feature.Off("landlock") {
		return []string{session.MissingLandlock}, nil
	}
	err = landlock.Restrict(landlock.Options{})
	if errors.Is(err, landlock.ErrUnsupported) {
		return []string{session.MissingLandlock}, nil
	}
	if err == nil && landlock.ABI() < landlock.ScopeABI {
		missing = append(missing, session.MissingScopes)
	}
	return missing, err
}

// fork runs on the starter thread. The fork is a vfork (see forkAndExecInChild1 in
// package syscall), so its cost does not grow with this process.
func (g *guest) fork(j *job) {
	g.forks.Lock()
	defer g.forks.Unlock()
	if g.isStopping() {
		j.err = errStopping
		return
	}
	j.pid, j.err = syscall.ForkExec(j.path, j.argv, &j.attr)
	if j.err != nil {
		return
	}
	g.byPid[j.pid] = j.command
	if g.isStopping() { // since the fork: it may have missed the call to end
		_ = syscall.Kill(-j.pid, syscall.SIGTERM)
	}
	select {
	case g.born <- struct{}{}:
	default:
	}
}
