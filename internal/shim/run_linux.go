package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/session"
)

// drainTime is how long clients may take, after the session's end, to read what is
// left of their commands' output.
const drainTime = 10 * time.Second

// open makes what a running session has: the log of its commands, and the commands.
func (s *shim) open(running session.Running) (err error) {
	_ = os.Remove(filepath.Join(s.launch.Dir, session.EndedFile)) // of an earlier start
	dir := filepath.Join(s.launch.Dir, "log")
	if s.log, err = execlog.Open(dir, execlog.Options{Max: s.launch.Policy.LogSize}); err != nil {
		return fmt.Errorf("open the log of the session's commands: %w", err)
	}
	s.execs = NewExecs(s.guest, s.log, ExecOptions{
		Env:     environ(s.record, s.user, s.launch.Env),
		Project: s.record.Project.Spelled,
		Running: running,
		Kill:    func() { _ = s.inner.process.Kill() },
		// What follows files ends beside the commands: giving a watch up takes the kernel
		// some 15 ms.
		Stopping: func() { _ = s.inner.mounter.Close() },
	})
	return nil
}

// serve serves the session until its guest is gone, however that came, and leaves
// nothing running.
func (s *shim) serve() {
	served := make(chan struct{})
	go func() { _ = s.execs.Serve(s.listener); close(served) }()
	_ = s.execs.Run() // a guest that broke the protocol ends like one that was killed
	s.inner.kill()
	if why := s.execs.Why(); why != "" {
		_ = os.WriteFile(filepath.Join(s.launch.Dir, session.EndedFile), []byte(why), 0o600)
	}
	s.execs.Drain(drainTime)
	_ = s.listener.Close()
	<-served
	s.log.Close()
}
