package holder

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
)

// prepare is what needs no spec, so that a spare holder has done it beforehand.
func prepare() error {
	// Host mounts that come later stay outside, ours never go out: facts about
	// propagation in mount_namespaces(7).
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &stepError{"private", fmt.Errorf("make the mount namespace private: %w", err)}
	}
	if err := ownProc(); err != nil {
		return &stepError{"proc", fmt.Errorf("mount a /proc of the sandbox's own pid namespace: %w", err)}
	}
	if err := loopbackUp(); err != nil {
		return &stepError{"loopback", err}
	}
	unix.Umask(0)
	return nil
}

// ownProc lays the /proc of our pid namespace over the host's: bubblewrap looks its child
// up there by the number that it knows.
func ownProc() error {
	c, err := mnt.Open("proc")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	fd, err := c.Mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return mnt.Move(fd, unix.AT_FDCWD, "/proc")
}

// loopbackUp brings lo up in our own network namespace. In the host's (network open)
// we have no right to, and it is up.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket for the loopback interface: %w", err)
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("read the flags of the loopback interface: %w", err)
	}
	if ifr.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return os.NewSyscallError("bring the loopback interface up", err)
	}
	return nil
}
