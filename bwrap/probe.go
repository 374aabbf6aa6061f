package bwrap

import (
	"fmt"
	"strings"
)

// Findings is what Probe learned by trying, never from a version number: distributions
// ship fixes without one, and take them back.
type Findings struct {
	Program string
	Version string // what it says of itself, for people to read

	DisableUserns bool // it can forbid user namespaces inside
	Size          bool // it can bound a tmpfs

	// CreatesThroughLinks says that it follows a link below a destination out of the
	// sandbox and creates what it finds missing there (CVE-2026-87766). A session is not
	// exposed: the tree that it binds holds no destination of an agent's. Anything else on
	// the machine that uses this program is.
	CreatesThroughLinks bool
}

// Reason says why bubblewrap cannot be used here.
type Reason string

// The reasons of a ProbeError.
const (
	Missing       Reason = "it is not installed"
	NotExecutable Reason = "it cannot be executed"
	NotBubblewrap Reason = "it is another program"
	TooOld        Reason = "it is too old"
	AppArmor      Reason = "AppArmor forbids user namespaces to it"
	NoUserns      Reason = "user namespaces are switched off"
	ProcCovered   Reason = "/proc is covered in part, as in a container"
	Broken        Reason = "it does not work here"
)

// ProbeError says why no sandbox can be made. There is no way to go on without one.
type ProbeError struct {
	Program string
	Reason  Reason
	Detail  string // what was seen
	Remedy  string // what to do, one line
}

func (e *ProbeError) Error() string {
	s := fmt.Sprintf("bubblewrap at %q: %s", e.Program, e.Reason)
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s + "; " + e.Remedy
}

const install = "install it: apt-get install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap or apk add bubblewrap"

// required are the words that a session's arguments stand on, with a payload that says
// the version.
func required(f Findings) []string {
	o := []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup", "--unshare-net",
		"--cap-drop", "ALL", "--die-with-parent", "--as-pid-1", "--hostname", DefaultHostname, "--clearenv",
		"--ro-bind", "/", "/", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--proc", "/proc",
		"--remount-ro", "/dev", "--chdir", "/",
	}
	if f.DisableUserns {
		o = append(o, "--disable-userns")
	}
	if f.Size {
		o = append(o, "--size", "65536", "--tmpfs", "/dev/shm")
	}
	return o
}

// unknownOption returns the option that bubblewrap said it does not know, or "".
func unknownOption(output string) string {
	_, rest, ok := strings.Cut(output, "Unknown option ")
	if !ok {
		return ""
	}
	word, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(word)
}

// diagnose explains a failed run from what bubblewrap said and the kernel's switches.
// sysctl returns the value of a switch below /proc/sys, "" when there is none.
func diagnose(program, output string, sysctl func(string) string) *ProbeError {
	e := &ProbeError{Program: program, Reason: Broken, Detail: oneLine(output)}
	denied := strings.Contains(output, "Permission denied") || strings.Contains(output, "not permitted") ||
		strings.Contains(output, "No permissions")
	switch option := unknownOption(output); {
	case option != "":
		e.Reason, e.Detail = TooOld, "it does not know "+option
		e.Remedy = "install version 0.6.1 or later"
	case sysctl("user/max_user_namespaces") == "0":
		e.Reason = NoUserns
		e.Remedy = "allow them: sysctl -w user.max_user_namespaces=15000, and the same line in /etc/sysctl.d/"
	case sysctl("kernel/unprivileged_userns_clone") == "0" && denied:
		e.Reason = NoUserns
		e.Remedy = "allow them: sysctl -w kernel.unprivileged_userns_clone=1, and the same line in /etc/sysctl.d/"
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" && denied:
		e.Reason = AppArmor
		e.Remedy = "load the profile: apparmor_parser -r /etc/apparmor.d/sbxd (it comes with sbxd, deploy/apparmor/sbxd)"
	case denied && strings.Contains(output, "mount proc"):
		e.Reason = ProcCovered
		e.Remedy = "run sbxd on the host, or in a container with an unmasked /proc (docker run --security-opt systempaths=unconfined)"
	case denied:
		e.Reason = NoUserns
		e.Remedy = "allow user namespaces for this user: a container's seccomp filter or another security module forbids them"
	default:
		e.Remedy = "run sbxd doctor, and bwrap --unshare-all --ro-bind / / true by hand"
	}
	return e
}

// shownOutput bounds what an error repeats of a program's output, in bytes.
const shownOutput = 300

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > shownOutput {
		s = s[:shownOutput] + "..."
	}
	return s
}
