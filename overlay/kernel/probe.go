package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// ProbeStage is the hidden stage in which this binary calls ProbeMain: its
// first argument, and the value of SBXD_STAGE.
const ProbeStage = "overlay-probe"

// probeTimeout bounds one probe: it takes some 30 ms, and a hanging file system
// must not hang doctor.
const probeTimeout = 10 * time.Second

// result is what the stage tells its parent: the step that failed, if one did.
type result struct {
	Step  string
	Err   string
	Errno int
}

// Probe mounts a view with all its layers below dir, in a child with user and
// mount namespaces of its own, and uses it. It leaves nothing in dir. The binary
// must call ProbeMain in ProbeStage. Errors are *overlay.ProbeError.
func (Backend) Probe(dir string) error {
	tmp, err := os.MkdirTemp(dir, ".probe-")
	if err != nil {
		return probeError("directory", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ProbeStage, tmp)
	cmd.Env = []string{"SBXD_STAGE=" + ProbeStage, "SBXD_TEST_WITHOUT=" + os.Getenv("SBXD_TEST_WITHOUT")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return probeError("user namespace", err)
	}
	err = cmd.Wait()
	var r result
	if jerr := json.Unmarshal(stdout.Bytes(), &r); jerr != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v", probeTimeout)
		}
		return probeError("child", fmt.Errorf("ended without an answer: %w: %s", err, firstLine(stderr.String())))
	}
	if r.Step == "" {
		return nil
	}
	return probeError(r.Step, r.error())
}

func (r result) error() error {
	if r.Errno == 0 {
		return errors.New(r.Err)
	}
	return fmt.Errorf("%s%w", strings.TrimSuffix(r.Err, syscall.Errno(r.Errno).Error()), syscall.Errno(r.Errno))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func probeError(step string, err error) error {
	return &overlay.ProbeError{Step: step, Remedy: remedy(step, err), Err: err}
}

// remedy says what a person can do when a step fails.
func remedy(step string, err error) string {
	switch step {
	case "directory":
		return "make the state directory writable for this user, or set SBXD_STATE"
	case "user namespace":
		if errors.Is(err, unix.ENOSPC) {
			return "raise /proc/sys/user/max_user_namespaces and max_mnt_namespaces"
		}
		return "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 where that exists, and the AppArmor profile deploy/apparmor/sbxd on Ubuntu"
	case "mount":
		return mountRemedy(err)
	case "child":
		return "run sbxd doctor again; if it stays, the file system of the state directory may hang"
	}
	return "move the state directory (SBXD_STATE) to ext4, xfs, btrfs or tmpfs"
}

func mountRemedy(err error) string {
	switch {
	case errors.Is(err, unix.ENODEV):
		return "load the kernel module: modprobe overlay"
	case errors.Is(err, fs.ErrPermission) && restricted():
		return "load the AppArmor profile deploy/apparmor/sbxd: this system restricts unprivileged user namespaces"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOSYS):
		return "Linux 5.15 or later is needed, and no seccomp or security module that forbids mounts in user namespaces (containers do)"
	}
	return "move the state directory (SBXD_STATE) to ext4, xfs, btrfs or tmpfs; NFS, FUSE and another overlay cannot be written through a view"
}

// restricted reports whether AppArmor takes capabilities away in unprivileged
// user namespaces (Ubuntu since 23.10).
func restricted() bool {
	b, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	return err == nil && strings.TrimSpace(string(b)) == "1"
}
