package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/session"
)

// testLauncher starts shims that are processes of this binary.
type testLauncher struct{}

var _ session.Launcher = testLauncher{}

func (testLauncher) Start(_ context.Context, r session.Record, l session.Launch) (session.Running, error) {
	var none session.Running
	if r.Labels["launch"] == "fails" {
		return none, &session.StartError{Step: "mount", Message: "no space left on device"}
	}
	if err := l.Made(); err != nil {
		return none, err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return none, err
	}
	defer ready.Close()
	order, err := json.Marshal(l)
	if err != nil {
		return none, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.Socket, Net: "unix"})
	if err != nil {
		return none, err
	}
	ln.SetUnlinkOnClose(false)
	defer ln.Close()
	f, err := ln.File()
	if err != nil {
		return none, err
	}
	defer f.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append([]string{stageEnv + "=shim", "PATH=/usr/bin:/bin", testPid + "=" + os.Getenv(testPid), "SBXD_ORDER=" + string(order), "SBXD_PROJECT=" + r.Project.Real}, l.Env...)
	cmd.ExtraFiles = []*os.File{theirs, f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(r.UID), Gid: uint32(r.GID)}
	}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return none, errors.Join(err, os.Remove(l.Socket))
	}
	go func() { _ = cmd.Wait() }()
	if b, err := io.ReadAll(ready); err != nil || string(b) != "ok" {
		return none, fmt.Errorf("the shim said %q: %w", b, err)
	}
	id, err := proc.Of(cmd.Process.Pid)
	return session.Running{Shim: id, View: "kernel", Warnings: []string{"a test"}}, err
}

func (l testLauncher) Stop(ctx context.Context, r session.Record, launch session.Launch) error {
	defer os.Remove(launch.Socket)
	if conn, err := l.Dial(ctx, r, launch.Socket); err == nil {
		defer conn.Close()
		w := wire.New(conn)
		if _, err := wire.Handshake(w, session.Protocol); err == nil && w.Write(session.Msg{Type: session.MsgStop}, nil) == nil {
			var m session.Msg
			_, _ = w.Read(&m)
		}
	}
	if r.Running.Shim.Pid == 0 {
		return nil
	}
	if err := proc.Kill(r.Running.Shim, unix.SIGKILL); err != nil && !errors.Is(err, proc.ErrGone) {
		return err
	}
	for r.Running.Shim.Alive() == proc.Alive {
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (testLauncher) Dial(ctx context.Context, _ session.Record, socket string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrGone, err)
	}
	return c, nil
}
