package bwrap

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// oomScore makes the kernel end a session before the services of the host, whose score
// is mostly 0, and after nothing that asks to go first (1000).
const oomScore = 300

// Harden prepares the calling process for becoming bubblewrap. The caller is single in
// its purpose and locked to its main thread, since some of this belongs to the thread;
// nothing can be mounted afterwards. Doing it twice does no harm; Exec does it anyway.
//
//   - no capability in any set: bubblewrap refuses to start with one;
//   - a new, empty session keyring in place of the host's, which would be inherited;
//   - no core dumps, here and below: a pipe in core_pattern runs on the host;
//   - a session of its own, so that no controlling terminal is shared;
//   - no signal blocked or ignored: both pass through execve, and bubblewrap before
//     0.11.1 waits for ever for an ignored SIGCHLD;
//   - umask 022, and an OOM score above the host's services.
//
// It does not set no_new_privs: bubblewrap does, as its first act, and under AppArmor
// the flag could keep execve from entering bubblewrap's profile. A set-user-id
// bubblewrap gains nothing here, as its owner is not mapped in our user namespace.
func Harden() error {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"drop all capabilities", dropCapabilities},
		{"leave the host's session keyring", newKeyring},
		{"forbid core dumps", forbidCores},
		{"start a session", newSession},
		{"reset signals", resetSignals},
		{"raise the OOM score", raiseOOMScore},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	unix.Umask(0o022)
	return nil
}

func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

func forbidCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

func newSession() error {
	if sid, err := unix.Getsid(0); err == nil && sid == os.Getpid() {
		return nil
	}
	_, err := unix.Setsid()
	return err
}

func raiseOOMScore() error {
	return os.WriteFile("/proc/self/oom_score_adj", fmt.Append(nil, oomScore), 0)
}

// newKeyring puts the thread into a session keyring of its own. Where keyrings do not
// exist or a filter forbids them, there is none to inherit.
//
// A uid has 200 keys (/proc/sys/kernel/keys/maxkeys) and each session takes one. When
// they are used up, an inherited keyring will do if it is empty, as a service's is.
func newKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return nil
	case errors.Is(err, unix.EDQUOT):
		held, readErr := unix.KeyctlInt(unix.KEYCTL_READ, unix.KEY_SPEC_SESSION_KEYRING, 0, 0, 0)
		if readErr == nil && held == 0 {
			return nil
		}
		return fmt.Errorf("%w: this uid holds as many keys as it may; raise the sysctl kernel.keys.maxkeys", err)
	}
	return err
}

// sigaction is the kernel's struct, the same on amd64 and arm64 (signal(7)).
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigIgnore  = 1
	sigSetSize = 8
	lastSignal = 64
)

// resetSignals gives every ignored signal its default and blocks none. Handlers of the
// Go runtime stay: execve resets them.
func resetSignals() error {
	for sig := unix.SIGHUP; sig <= lastSignal; sig++ {
		if sig == unix.SIGKILL || sig == unix.SIGSTOP {
			continue
		}
		var now, standard sigaction
		if err := setAction(sig, nil, &now); err != nil {
			return fmt.Errorf("read the action of signal %d: %w", sig, err)
		}
		if now.handler != sigIgnore {
			continue
		}
		if err := setAction(sig, &standard, nil); err != nil {
			return fmt.Errorf("reset signal %d: %w", sig, err)
		}
	}
	return unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
}

func setAction(sig unix.Signal, set, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), sigSetSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
