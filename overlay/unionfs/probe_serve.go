package unionfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// ProbeServeMain is the stage that Probe starts: it makes layers below the directory in
// os.Args[2], starts ProbeMain, serves what that mounts, prints its answer, and returns.
func ProbeServeMain() {
	a := answer{Step: "child", Text: "no directory given"}
	if len(os.Args) == 3 {
		a = probeServe(os.Args[2])
	}
	_ = json.NewEncoder(os.Stdout).Encode(a)
}

func probeServe(dir string) (a answer) {
	runtime.LockOSThread() // parent-death signals go by thread
	if err := probeLayers(dir); err != nil {
		return answerOf("layers", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answerOf("child", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "probe")
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("/proc/self/exe", ProbeStage, dir)
	cmd.Env = []string{"SBXD_STAGE=" + ProbeStage}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return answerOf("user namespace", err)
	}
	served := serveProbe(pair[0], dir)
	if served != nil {
		_ = cmd.Process.Kill() // it would wait for a server for ever
	}
	err = cmd.Wait()
	if json.Unmarshal(stdout.Bytes(), &a) == nil {
		return a
	}
	if served != nil {
		return answerOf("mount", served)
	}
	line, _, _ := bytes.Cut(stderr.Bytes(), []byte("\n"))
	return answerOf("child", fmt.Errorf("ended without an answer: %w: %s", err, line))
}

func probeLayers(dir string) error {
	for _, n := range []string{"lower", "lower/dir", "upper", "work", "view"} {
		if err := os.Mkdir(filepath.Join(dir, n), 0o700); err != nil {
			return err
		}
	}
	for _, n := range []string{"gone", "kept", "dir/hidden"} {
		if err := os.WriteFile(filepath.Join(dir, "lower", n), []byte(n), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// serveProbe waits for a device on the socket and serves it; nil when none comes, since the
// other stage says why.
func serveProbe(socket int, dir string) error {
	defer unix.Close(socket)
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), space, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return fmt.Errorf("wait for the device: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil || len(messages) == 0 {
		return err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return errors.Join(errors.New("one device was awaited"), err)
	}
	dev := os.NewFile(uintptr(fds[0]), "/dev/fuse")
	defer dev.Close()
	var layers [3]*os.File
	for i, n := range []string{"lower", "upper", "work"} {
		f, err := os.Open(filepath.Join(dir, n))
		if err != nil {
			return err
		}
		defer f.Close()
		layers[i] = f
	}
	_, err = Serve(dev, overlay.Spec{Lowers: layers[:1], Upper: layers[1], Work: layers[2]}, Options{})
	return err
}
