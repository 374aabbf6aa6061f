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

// The hidden stages in which this binary calls ProbeServeMain and ProbeMain: its first
// argument, and the value of SBXD_STAGE.
const (
	ProbeServeStage = "unionfs-probe-serve"
	ProbeStage      = "unionfs-probe"
)

// probeTimeout bounds one probe, which takes some 30 ms.
const probeTimeout = 10 * time.Second

// answer is what the stages tell their parent: the step that failed, if one did.
type answer struct {
	Step  string
	Text  string
	Errno syscall.Errno
}

func answerOf(step string, err error) answer {
	a := answer{Step: step, Text: err.Error()}
	_ = errors.As(err, &a.Errno)
	return a
}

// Probe mounts a view with all its layers below dir and uses it, as a session does: one
// child serves, another one uses it in user and mount namespaces of its own. A process that
// did both could wait for itself, and could not even be killed then; the end of the one that
// serves ends what the other waits for. It leaves nothing in dir. The binary must call
// ProbeServeMain and ProbeMain in their stages. Errors are *overlay.ProbeError.
func Probe(dir string) error {
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
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ProbeServeStage, tmp)
	cmd.Env = []string{"SBXD_STAGE=" + ProbeServeStage}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var a answer
	if json.Unmarshal(stdout.Bytes(), &a) != nil {
		line, _, _ := bytes.Cut(stderr.Bytes(), []byte("\n"))
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v", probeTimeout)
		}
		return probeError("child", fmt.Errorf("ended without an answer: %w: %s", err, line))
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
