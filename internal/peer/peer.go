// Package peer tells who is at the other end of a unix socket.
//
// The one idea: the kernel says it, nobody claims it. What cannot be found out
// counts as the worse answer. The package knows one connection; what a peer may
// do is for others to decide.
package peer

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/feature"
)

// Peer is the process that connected (or listened), at the time it did so, with
// ids as they appear in our own user namespace.
type Peer struct {
	UID, GID, Pid int
	// SameUserNS reports that the peer certainly lives in our user namespace. A
	// process of a sandbox shows the uid of its owner and differs only here.
	SameUserNS bool
}

// errGone is kept inside: a peer that is gone cannot be placed.
var errGone = errors.New("the peer is gone")

// Of asks the kernel who is at the other end of conn.
func Of(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("find out who connected: %w", err)
	}
	var p Peer
	var inner error
	err = raw.Control(func(fd uintptr) { p, inner = of(int(fd)) })
	if err = errors.Join(err, inner); err != nil {
		return Peer{}, fmt.Errorf("find out who connected: %w", err)
	}
	return p, nil
}

func of(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	p := Peer{UID: int(cred.Uid), GID: int(cred.Gid), Pid: int(cred.Pid)}
	p.SameUserNS = sameUserNS(fd, p.Pid) == nil
	return p, nil
}

// sameUserNS compares the peer's user namespace with ours. An open /proc/PID
// belongs to one process for ever, and a pidfd of the peer (SO_PEERPIDFD, Linux
// 6.5) that still answers afterwards shows that it was the peer's. On older
// kernels a peer that ends, and whose number is used again, within the
// microseconds since it connected is taken for its successor.
func sameUserNS(fd, pid int) error {
	if pid <= 0 {
		return errGone // its number is not visible here: another pid namespace
	}
	dir, err := unix.Open(fmt.Sprintf("/proc/%d", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errGone
	}
	defer func() { _ = unix.Close(dir) }()
	if err := stillThere(fd); err != nil {
		return err
	}
	var theirs, ours unix.Stat_t
	if err := unix.Fstatat(dir, "ns/user", &theirs, 0); err != nil {
		return err
	}
	if err := unix.Stat("/proc/self/ns/user", &ours); err != nil {
		return err
	}
	if theirs.Dev != ours.Dev || theirs.Ino != ours.Ino {
		return errors.New("the peer lives in another user namespace")
	}
	return nil
}

// stillThere reports whether the process that connected still exists, as far as
// the kernel can tell.
func stillThere(fd int) error {
	if feature.Off(feature.PeerPidfd) {
		return nil
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err == unix.ENOPROTOOPT {
		return nil // before Linux 6.5
	}
	if err != nil {
		return errGone
	}
	defer func() { _ = unix.Close(pidfd) }()
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && err != unix.EPERM {
		return errGone
	}
	return nil
}

// Polls reports whether one of the events (poll(2)) can be seen on conn now, or its end or
// an error; true also when it cannot be asked.
func Polls(conn syscall.Conn, events int16) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	fds := []unix.PollFd{{Events: events}}
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, _ = unix.Poll(fds, 0)
	})
	return err != nil || fds[0].Revents != 0
}
