package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/mnt"
)

// inner is the process that was cloned as the holder and has become bubblewrap, and
// the shim's descriptors to it and to the mounter.
type inner struct {
	process *os.Process
	ended   chan struct{} // closed when the process has ended, and what it left as well
	control *net.UnixConn // what went wrong before bubblewrap
	mounter *holder.Channel[holder.Spec, holder.Answer]
	guest   *net.UnixConn // frames of the guest
	status  *os.File      // bubblewrap's --json-status-fd
	stderr  *tail         // what holder, bubblewrap and guest say to nobody
}

// startHolder clones the holder into its namespaces. It must be called on the thread
// that lives as long as the shim: parent-death signals go by thread (prctl(2),
// PR_SET_PDEATHSIG). An open network keeps the host's network namespace.
func startHolder(frame holder.Frame) (in *inner, err error) {
	in = &inner{}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	var theirs []*os.File
	defer func() { closeAll(theirs) }()
	pair := func(dst **net.UnixConn, name string) error {
		mine, their, err := socketpair(name)
		if err != nil {
			return err
		}
		*dst, theirs = mine, append(theirs, their)
		return nil
	}
	if err := pair(&in.control, "control"); err != nil {
		return in, err
	}
	if err := pair(&in.guest, "guest"); err != nil {
		return in, err
	}
	var status *os.File
	if in.status, status, err = statusPipe(); err != nil {
		return in, fmt.Errorf("make the status pipe: %w", err)
	}
	theirs = append(theirs, status)
	var mounter *net.UnixConn
	if err := pair(&mounter, "mounter"); err != nil {
		return in, err
	}
	in.mounter = holder.NewChannel[holder.Spec, holder.Answer](mounter, maxAnswer)
	words, err := in.listen()
	if err != nil {
		return in, err
	}
	defer words.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return in, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), words.Fd()}
	for _, f := range theirs {
		files = append(files, f.Fd())
	}
	// os.StartProcess would first try out, with a process, whether it can have a pidfd.
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"sbxd", "holder"}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(stageEnviron("holder"), frame.Environ()),
		Files: files,
		Sys:   holderAttr(frame.OpenNet),
	})
	if err != nil {
		return in, os.NewSyscallError("start the holder in new namespaces", err)
	}
	if in.process, err = os.FindProcess(pid); err != nil {
		return in, err // never of a child that nobody has waited for
	}
	in.ended = make(chan struct{})
	go func() {
		defer close(in.ended)
		_, _ = in.process.Wait()
		endOrphans() // so that all who wait for something of the sandbox see its end
	}()
	return in, nil
}

// statusPipe makes a pipe whose writer can read as well (fifo(7)), so that writing does
// not fail when we are gone: bubblewrap would end there and then, and its child would
// wait for ever.
func statusPipe() (ours, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	theirs, err = os.OpenFile(mnt.Name(int(w.Fd())), os.O_RDWR, 0)
	if err != nil {
		_ = r.Close()
		return nil, nil, err
	}
	return r, theirs, nil
}

// holderAttr maps the session's uid and gid to themselves; every capability that this
// gives counts in the new user namespace only, and goes before bubblewrap starts. In a pid
// namespace of its own, whose first process it is, the holder's end, also as bubblewrap,
// is the end of all that it has started, however far that was (pid_namespaces(7)).
func holderAttr(openNet bool) *syscall.SysProcAttr {
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID)
	if !openNet {
		flags |= unix.CLONE_NEWNET
	}
	caps := make([]uintptr, 0, unix.CAP_LAST_CAP+1)
	last := lastCap()
	for c := uintptr(0); c <= last; c++ {
		caps = append(caps, c)
	}
	return &syscall.SysProcAttr{
		Cloneflags:                 flags,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		GidMappingsEnableSetgroups: false,
		AmbientCaps:                caps,
		Pdeathsig:                  syscall.SIGKILL,
		Setsid:                     true,
	}
}

// lastCap is the highest capability that this kernel knows (capabilities(7)).
func lastCap() uintptr {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	var n uintptr
	if err != nil {
		return unix.CAP_BLOCK_SUSPEND
	}
	if _, err := fmt.Sscan(string(b), &n); err != nil {
		return unix.CAP_BLOCK_SUSPEND
	}
	return n
}

// framed returns when the holder has become bubblewrap.
func (in *inner) framed(deadline time.Time) error {
	_ = in.control.SetReadDeadline(deadline)
	var a holder.Answer
	err := holder.Decode(io.LimitReader(in.control, maxAnswer), &a)
	switch {
	case errors.Is(err, io.EOF): // closed by execve
		return nil
	case err != nil:
		return fmt.Errorf("hear from the holder: %w", err)
	}
	return a.Failure
}

// errDied says that a process of the sandbox was killed by somebody.
var errDied = errors.New("a process of the sandbox has ended")

// build sends the spec and returns when all of it is mounted.
func (in *inner) build(spec holder.Spec, layers []*os.File, how serving, deadline time.Time) (holder.Answer, error) {
	_ = in.mounter.SetDeadline(deadline)
	if layers == nil {
		layers = []*os.File{}
	}
	if err := in.mounter.Send(spec, layers); err != nil {
		return holder.Answer{}, fmt.Errorf("%w: send the spec to the mounter: %w", errDied, err)
	}
	var failed <-chan error
	if served(spec) {
		var err error
		if failed, err = in.serveViews(spec, layers, how); err != nil {
			return holder.Answer{}, err
		}
	}
	a, err := in.mounter.Receive()
	select {
	case why := <-failed:
		return a, why
	default:
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return holder.Answer{}, fmt.Errorf("hear from the mounter: %w", err)
	case err != nil:
		return holder.Answer{}, fmt.Errorf("%w: the mounter gave no answer: %w", errDied, err)
	case a.Failure != nil:
		return a, a.Failure
	}
	return a, nil
}

// meet waits for the mounter.
func (in *inner) meet(deadline time.Time) error {
	_ = in.mounter.SetDeadline(deadline)
	if err := in.mounter.Open(); err != nil {
		return fmt.Errorf("hear from the mounter: %w", err)
	}
	return nil
}

// maxAnswer bounds what holder and mounter may say: their warnings.
const maxAnswer = 16 << 20

// sandbox is what bubblewrap tells when it has set the namespaces up
// (bwrap(1), --json-status-fd).
type sandbox struct {
	ChildPid int    `json:"child-pid"`
	MountNS  uint64 `json:"mnt-namespace"`
	ExitCode *int   `json:"exit-code"`
}

// ready reads the first line of the status pipe.
func (in *inner) ready(deadline time.Time) (sandbox, error) {
	_ = in.status.SetReadDeadline(deadline)
	var s sandbox
	if err := json.NewDecoder(in.status).Decode(&s); err != nil {
		_ = in.process.Kill() // it may as well hang
		<-in.ended
		if said := in.stderr.wait(); said != "" {
			return s, fmt.Errorf("bubblewrap ended before the sandbox was there: %s", said)
		}
		return s, fmt.Errorf("bubblewrap ended before the sandbox was there: %w", err)
	}
	return s, nil
}

// kill ends the sandbox: the monitor, and what it leaves to us.
func (in *inner) kill() {
	if in.process != nil {
		_ = in.process.Kill()
		<-in.ended
	}
	in.close()
}

func (in *inner) close() {
	for _, c := range []*net.UnixConn{in.control, in.guest} {
		if c != nil {
			_ = c.Close()
		}
	}
	if in.mounter != nil {
		_ = in.mounter.Close()
	}
	if in.status != nil {
		_ = in.status.Close()
	}
}

func socketpair(name string) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the %s socket: %w", name, err)
	}
	their := os.NewFile(uintptr(fds[1]), name)
	mine := os.NewFile(uintptr(fds[0]), name)
	defer mine.Close()
	c, err := net.FileConn(mine)
	if err != nil {
		_ = their.Close()
		return nil, nil, fmt.Errorf("use the %s socket: %w", name, err)
	}
	return c.(*net.UnixConn), their, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
