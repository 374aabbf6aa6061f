// Package holder builds what a session sees, in a private mount namespace, each piece
// reached by descriptor. So no path of a user or of an agent is ever resolved by anybody
// but this package, and every mount vanishes with the session's last process.
//
// The one idea: only the views, the masks and what else is the session's own are laid
// when the session comes; everything else is ready before. Two processes share the
// namespace. The holder puts the Frame together, the part of the root that all sessions
// of a user have, below one small tmpfs, and becomes bubblewrap, which binds it. The
// mounter waits for the Spec and lays the rest into the same tree; its mounts reach the
// sandbox by propagation, one way (mount_namespaces(7), slave mounts). Then it seals the
// tree, so that nothing more ever comes, and ends; until then nothing runs in the sandbox
// but a guest without commands. Only single files of the host may still change, each in
// its own place: the mounter stays to follow them.
//
// It knows mounts and the order in which they are laid. It must not know why a path
// is masked (package masks decides), nor anything of the daemon.
package holder

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/feature"
)

// Descriptors that the shim gives to the holder.
const (
	ControlFD = 3 // an error goes out; closed by execve
	GuestFD   = 4 // the guest's end of its socket to the shim; passed on
	StatusFD  = 5 // bubblewrap's --json-status-fd
	MounterFD = 6 // the mounter's end of its socket to the shim
)

// Frame is a sandbox before it has a session: what bubblewrap is asked for and the part
// of the root that is the same for all. It travels in the environment, as FrameEnv.
type Frame struct {
	UID int
	// Bwrap is the bubblewrap to become and what it can do.
	Bwrap   bwrap.Findings
	OpenNet bool  // the host's network namespace is shared
	TmpSize int64 // bytes, of /tmp and of /var/tmp each
	ShmSize int64 // bytes, of /dev/shm
}

// FrameEnv is the variable that brings the Frame.
const FrameEnv = "SBXD_FRAME"

// Environ returns f as a line of an environment.
func (f Frame) Environ() string {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // it holds strings, numbers and truths only
	}
	return FrameEnv + "=" + string(b)
}

// FrameOf returns the Frame of this process's environment.
func FrameOf() (f Frame, err error) {
	if err = json.Unmarshal([]byte(os.Getenv(FrameEnv)), &f); err != nil {
		err = fmt.Errorf("read %s: %w", FrameEnv, err)
	}
	return f, err
}

// Failure is what holder or mounter says of a step that failed.
type Failure struct {
	Step    string
	Message string
}

func (f *Failure) Error() string { return f.Message }

// Answer is what the mounter says, at its end and when it has devices to be served, and
// the holder when it has not become bubblewrap.
type Answer struct {
	Failure  *Failure
	Warnings []string
	Mounts   int // that were attached, without those that came below them
	// Devices came with this answer, open /dev/fuse, one for each view that is FUSE; the
	// next answer is the last.
	Devices int
}

// Main is the holder: it never returns except by exit of the caller with its code.
// The process was cloned into new user, mount and (unless the network is open) network
// namespaces with every capability ambient.
func Main() int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // it lives for milliseconds
	control := os.NewFile(ControlFD, "control")
	_ = Encode(control, Answer{Failure: failure(run())})
	return 1
}

// run returns only with an error: otherwise the process has become bubblewrap.
func run() error {
	f, err := FrameOf()
	if err != nil {
		return err
	}
	if err := prepare(); err != nil {
		return err
	}
	b := &framer{frame: f}
	defer b.close()
	if err := startMounter(); err != nil {
		return &stepError{"mounter", err}
	}
	if err := doSteps("holder.", []step{
		{"programs", b.openPrograms},
		{"stage", b.stage},
		{"base", b.base},
		{"scratch", b.scratch},
		{"guest", b.putGuest},
		{"share", b.share},
	}); err != nil {
		return err
	}
	return b.become()
}

// startMounter starts the other process of this namespace, which nothing has changed
// yet: what the mounter gets of the host's /tmp is what lies below the stage.
func startMounter() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	tmp, err := openPath(stagePath)
	if err != nil {
		return err
	}
	defer tmp.Close()
	for _, fd := range []int{ControlFD, GuestFD, StatusFD, MounterFD} {
		unix.CloseOnExec(fd) // of these the mounter gets what Files says
	}
	socket := os.NewFile(MounterFD, "mounter")
	defer socket.Close()
	// Of a process of another parent nobody waits for an exit; bubblewrap ignores that of
	// a child that it has not made. os.StartProcess would first try out, with a process,
	// whether it can have a pidfd.
	_, err = syscall.ForkExec("/proc/self/exe", []string{"sbxd", "mounter"}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), null.Fd(), os.Stderr.Fd(), socket.Fd(), tmp.Fd()},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	return os.NewSyscallError("start the mounter", err)
}

// Sandbox is what bubblewrap is asked for.
func (f Frame) Sandbox() bwrap.Spec {
	return bwrap.Spec{
		Root:          rootPath,
		DisableUserns: true,
		ShmSize:       f.ShmSize,
		Cover:         bwrap.ProcFiles(),
		StatusFD:      StatusFD,
		Argv:          append([]string{guestPath, "guest", fmt.Sprint(GuestFD)}, feature.Carry()...),
	}.Fit(f.Bwrap)
}

// become turns the process into bubblewrap. It returns only with an error.
func (b *framer) become() error {
	args, err := bwrap.Args(b.frame.Sandbox())
	if err != nil {
		return &stepError{"bwrap", err}
	}
	return &stepError{"bwrap", bwrap.Exec(b.program, args, GuestFD, StatusFD)}
}

// step is a part of the work with the name that an error and a fault know it by.
type step struct {
	name string
	do   func() error
}

func doSteps(who string, steps []step) error {
	for _, s := range steps {
		err := fault.Hit(who + s.name)
		if err == nil {
			err = s.do()
		}
		if err != nil {
			return &stepError{s.name, err}
		}
	}
	return nil
}

type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func failure(err error) *Failure {
	f := &Failure{Message: err.Error()}
	var s *stepError
	if errors.As(err, &s) {
		f.Step = s.step
	}
	return f
}
