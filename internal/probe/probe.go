// Package probe finds out what this machine offers, by trying it.
//
// The one idea: doctor and the tests ask the same functions, so what a test
// skips is what doctor reports. Each function tries the real thing, leaves
// nothing behind, and returns nil or an error whose text says what is missing.
// The package knows the kernel and the file system; it must not know sessions,
// bwrap's arguments, or how a result is shown.
package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Program reports whether name is an executable in PATH.
func Program(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%s is not installed", name)
	}
	return nil
}

// Fuse reports whether /dev/fuse can be opened by this process.
func Fuse() error { return device("/dev/fuse") }

// Tun reports whether /dev/net/tun can be opened by this process.
func Tun() error { return device("/dev/net/tun") }

func device(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return unix.Close(fd)
}

// LandlockABI returns the Landlock version of the running kernel, or an error
// when it has none or was booted without it.
func LandlockABI() (int, error) {
	const createRulesetVersion = 1 // LANDLOCK_CREATE_RULESET_VERSION
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, createRulesetVersion)
	switch errno {
	case 0:
		return int(v), nil
	case unix.EOPNOTSUPP:
		return 0, errors.New("landlock is built in but not among the lsm= of the kernel command line")
	case unix.ENOSYS:
		return 0, errors.New("the kernel has no landlock")
	case unix.EPERM:
		return 0, errors.New("a filter of system calls, as in a container, forbids landlock")
	}
	return 0, fmt.Errorf("ask for landlock: %w", errno)
}

// SeccompNotify reports whether seccomp filters can hand calls to a supervisor
// (SECCOMP_RET_USER_NOTIF, Linux 5.0).
func SeccompNotify() error {
	const getActionAvail = 2      // SECCOMP_GET_ACTION_AVAIL
	action := uint32(0x7fc0_0000) // SECCOMP_RET_USER_NOTIF
	p := uintptr(unsafe.Pointer(&action))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, getActionAvail, 0, p)
	if errno != 0 {
		return fmt.Errorf("ask for seccomp user notification: %w", errno)
	}
	return nil
}

// UserNS reports whether this process can make a user namespace in which it is
// root. Clone alone is not enough: where AppArmor restricts them the clone
// works and the first privileged call in it fails, so a mount is tried.
func UserNS() error { return UserNSAs(os.Geteuid(), os.Getegid()) }

// UserNSAs is UserNS for another uid, which only root can ask: what root may do says
// nothing about anybody else.
func UserNSAs(uid, gid int) error { return inNamespaces(uid, gid, "mount -t tmpfs tmpfs /tmp") }

// OverlayUserNS reports whether overlayfs can be mounted in a user namespace
// with its layers below dir (Linux 5.11, user xattrs, not on another overlay).
func OverlayUserNS(dir string) error {
	d, err := os.MkdirTemp(dir, ".sbxd-probe-")
	if err != nil {
		return fmt.Errorf("make a probe directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(d) }()
	for _, n := range []string{"l", "u", "w", "m"} {
		if err := os.Mkdir(d+"/"+n, 0o755); err != nil {
			return fmt.Errorf("make a probe directory: %w", err)
		}
	}
	return inNamespaces(os.Geteuid(), os.Getegid(),
		`cd "$1" && mount -t overlay -o lowerdir=l,upperdir=u,workdir=w,userxattr overlay m && mkdir m/d && rmdir m/d`, d)
}

// inNamespaces runs a line of shell as root of fresh user and mount namespaces that
// uid makes. Everything it mounts goes with it.
func inNamespaces(uid, gid int, script string, args ...string) error {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if uid != os.Geteuid() {
		// The clone has to be that uid's, so it is made by a child: unshare(1) of util-linux.
		cmd.Args = append([]string{"unshare", "--user", "--map-root-user", "--mount"}, append([]string{"/bin/sh"}, cmd.Args[1:]...)...)
		cmd.Path = "/usr/bin/unshare"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		why := strings.Join(strings.Fields(string(out)), " ")
		if why == "" {
			why = err.Error()
		}
		return fmt.Errorf("in a new user namespace: %s", why)
	}
	return nil
}
