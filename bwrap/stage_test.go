package bwrap

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// The live tests run the test binary again in three roles, as the product does: a shim
// with the session's uid, a holder in new namespaces that builds a tiny root and becomes
// bubblewrap, and the payload inside. "stage NAME ARG..." on the command line chooses.

// scene is what a live test wants to see on stage. It travels as JSON.
type scene struct {
	Program string   // bubblewrap
	Guest   []string // the payload's stage and its arguments
	// Project is a host directory, bound read-write at its own path. When Mask is set,
	// its .env is covered by an empty file and its .git is read-only.
	Project string
	Mask    bool

	NoSeccomp bool // leave a layer out
	NoLimit   bool
	NoSize    bool // set for a bubblewrap that knows no sizes
	Landlock  bool // put the payload under Landlock

	Shared  bool // leave the mount propagation as it came
	Leak    bool // let the holder have a descriptor of /, and an environment, to leak
	Keyring bool // put a key into the shim's session keyring
	KeepCap bool // keep the ambient capabilities

	Mounts int  // for the benchmark: so many file mounts below the root
	Plain  bool // ... without nosuid and nodev
}

// stages are the roles outside of the sandbox.
var stages = map[string]func(scene) error{"shim": shimStage, "holder": holderStage, "late-host": lateHost}

// payloads are the roles inside, and those of other processes that report results.
var payloads = map[string]func(results, []string) error{
	"clock": clock, "detach": detach, "detached": detached, "exit": exit, "harden": hardenTwice, "int80": tryInt80,
	"landlock": thenLandlock, "late": late, "namespaces": namespaces, "probe": probeAsUser, "probe-below": probeBelow,
	"probe-without-userns": probeWithoutUserns, "programs": tryPrograms, "quota": quota, "report": report,
	"syscalls": trySyscalls,
}

// results maps what a payload looked at or tried to what it saw: "ok", or the error.
type results map[string]string

func (r results) add(name string, err error) {
	if err == nil {
		r[name] = "ok"
	} else {
		r[name] = err.Error()
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "stage" {
		testbox.Main(m)
	}
	runtime.LockOSThread()
	if err := onStage(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "stage %s: %v\n", os.Args[2], err)
		os.Exit(1)
	}
	os.Exit(0)
}

func onStage(name string, args []string) error {
	if f, ok := payloads[name]; ok {
		res := results{}
		if err := f(res, args); err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(res)
	}
	f, ok := stages[name]
	if !ok {
		return fmt.Errorf("there is no such stage")
	}
	var s scene
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return err
	}
	return f(s)
}

const (
	statusFD = 3 // of the shim and of the holder
	canary   = 50
)

// shimStage clones the holder and waits for it, on one locked thread.
func shimStage(s scene) error {
	if s.Keyring {
		if err := hostKey(); err != nil {
			return err
		}
	}
	arg, err := json.Marshal(s)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "stage", "holder", string(arg))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "SECRET=of-the-daemon")
	cmd.ExtraFiles = []*os.File{os.NewFile(statusFD, "status")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return err
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// hostKey stands for what a login session holds: a key that the sandbox must not see.
func hostKey() error {
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		return err
	}
	_, err := unix.AddKey("user", "sbxd-test", []byte("host key"), unix.KEY_SPEC_SESSION_KEYRING)
	return err
}

// holderStage builds the root and becomes bubblewrap.
func holderStage(s scene) error {
	// By descriptor: what is below /tmp on the host is about to be covered.
	exe, err := unix.Open(s.Program, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.Program, err)
	}
	program := fmt.Sprintf("/proc/self/fd/%d", exe)
	if err := buildRoot(s); err != nil {
		return fmt.Errorf("build the root: %w", err)
	}
	if s.Leak {
		if err := leak(); err != nil {
			return err
		}
	}
	if s.KeepCap {
		return unix.Exec(program, []string{"bwrap", "--bind", "/", "/", "true"}, nil)
	}
	argv := append([]string{"/run/sbxbin/test", "stage"}, s.Guest...)
	if s.Landlock {
		argv = append([]string{"/run/sbxbin/test", "stage", "landlock"}, s.Guest...)
	}
	if s.Guest[0] == "clock" {
		argv = append(argv, fmt.Sprint(monotonic()))
	}
	args, err := Args(Spec{
		Root: rootPath, DisableUserns: !s.NoLimit, NoSeccomp: s.NoSeccomp, NoSize: s.NoSize, StatusFD: statusFD, Argv: argv,
		Cover: ProcFiles(),
	})
	if err != nil {
		return err
	}
	return Exec(program, args, statusFD)
}

// leak is a careless parent: it leaves a directory above everything open, ignores the
// signal that tells of a child's end, and blocks another.
func leak() error {
	for _, sig := range []unix.Signal{unix.SIGCHLD, unix.SIGHUP} {
		if err := setAction(sig, &sigaction{handler: sigIgnore}, nil); err != nil {
			return err
		}
	}
	var usr1 unix.Sigset_t
	usr1.Val[0] = 1 << (unix.SIGUSR1 - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &usr1, nil); err != nil {
		return err
	}
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return unix.Dup2(fd, canary)
}
