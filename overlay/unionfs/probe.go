package unionfs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// ProbeStage is the hidden stage in which this binary calls ProbeMain: its first
// argument, and the value of SBXD_STAGE.
const ProbeStage = "unionfs-probe"

// probeTimeout bounds one probe, which takes some 30 ms.
const probeTimeout = 10 * time.Second

// answer is what the stage tells its parent: the step that failed, if one did.
type answer struct {
	Step  string
	Text  string
	Errno syscall.Errno
}

// Probe mounts a view with all its layers below dir, in a child with user and
// mount namespaces of its own, and uses it. It leaves nothing in dir. The binary
// must call ProbeMain in ProbeStage. Errors are *overlay.ProbeError.
func (*Backend) Probe(dir string) error {
	tmp, err := os.MkdirTemp(dir, ".probe-")
	if err != nil {
		return probeError("directory", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	dev, err := OpenDevice()
	if err != nil {
		return probeError("device", err)
	}
	_ = dev.Close()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ProbeStage, tmp)
	cmd.Env = []string{"SBXD_STAGE=" + ProbeStage}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return probeError("user namespace", err)
	}
	err = cmd.Wait()
	var a answer
	if json.Unmarshal(stdout.Bytes(), &a) != nil {
		line, _, _ := bytes.Cut(stderr.Bytes(), []byte("\n"))
		return probeError("child", fmt.Errorf("ended without an answer: %w: %s", errors.Join(err, ctx.Err()), line))
	}
	switch {
	case a.Step == "":
		return nil
	case a.Errno != 0:
		return probeError(a.Step, fmt.Errorf("%s: %w", a.Text, a.Errno))
	}
	return probeError(a.Step, errors.New(a.Text))
}

func probeError(step string, err error) error {
	return &overlay.ProbeError{Step: step, Remedy: remedy(step, err), Err: err}
}

// remedy says what a person can do when a step fails.
func remedy(step string, err error) string {
	switch step {
	case "directory":
		return "make the state directory writable for this user, or set SBXD_STATE"
	case "device":
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			return "load the kernel module: modprobe fuse; in a container, pass the device /dev/fuse through"
		}
		return "let this user open /dev/fuse: its mode is 0666 on most systems"
	case "user namespace":
		return "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 where that exists, and the AppArmor profile deploy/apparmor/sbxd on Ubuntu"
	case "mount":
		return "Linux 5.15 or later is needed, and no seccomp or security module that forbids FUSE mounts in user namespaces"
	case "child":
		return "run sbxd doctor again; if it stays, the file system of the state directory may hang"
	}
	return "move the state directory (SBXD_STATE) to ext4, xfs, btrfs or tmpfs"
}
