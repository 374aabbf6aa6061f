// Package backing lets the kernel read and write files of a FUSE view itself.
//
// The one idea: a registration is a favour of root that gives nobody more than he has.
// FUSE passthrough (Linux 6.9, fuse-passthrough(7)) wants CAP_SYS_ADMIN of whoever
// registers a file, and the kernel opens the file again by that caller's credentials,
// without asking whether it may be opened for writing. So a process of root, one a
// session, registers only what the session's user holds open for reading and writing
// himself: a regular file of his own on the device of the state directory. It keeps that
// one capability, takes his file system ids, and is no part of the daemon: the file
// systems that a descriptor leads to can be his as well, and make whoever closes it wait.
//
// Two ends of one socket: a Client in the shim, Main in the process of root. The package
// must not know views or sessions.
package backing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stage is the hidden stage in which this binary calls Main: its first argument, and the
// value of SBXD_STAGE.
const Stage = "backing"

// patience bounds one registration, which takes some 50 µs. A file that is not registered
// is read and written through its server.
const patience = 2 * time.Second

// A request is one packet: what to do, and a number, with the FUSE device and the file as
// descriptors, or the device alone. So is an answer: a number, or an error of the system;
// who takes a number back gets none.
const (
	opRegister   = 1
	opUnregister = 2
	packet       = 8
)

func pack(a, b int32) []byte {
	var p [packet]byte
	binary.NativeEndian.PutUint32(p[:], uint32(a))
	binary.NativeEndian.PutUint32(p[4:], uint32(b))
	return p[:]
}

func unpack(p []byte) (a, b int32) {
	return int32(binary.NativeEndian.Uint32(p)), int32(binary.NativeEndian.Uint32(p[4:]))
}

// Client asks the process at the other end of a socket. Its methods may be called by many
// goroutines.
type Client struct {
	mu     sync.Mutex // guards the socket, and that one question is asked at a time
	socket *os.File   // nil once it has failed
}

// NewClient takes over a socket that Start has returned.
func NewClient(socket *os.File) (*Client, error) {
	unix.CloseOnExec(int(socket.Fd()))
	t := unix.NsecToTimeval(patience.Nanoseconds())
	for _, opt := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(int(socket.Fd()), unix.SOL_SOCKET, opt, &t); err != nil {
			return nil, fmt.Errorf("bound the time of registrations: %w", err)
		}
	}
	return &Client{socket: socket}, nil
}

// errLost says that nobody registers for us any more.
var errLost = errors.New("the process that registers backing files is gone")

// For returns the registrar of one mount, whose device it duplicates.
func (c *Client) For(dev *os.File) (Device, error) {
	fd, err := unix.FcntlInt(dev.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return Device{}, fmt.Errorf("duplicate %s: %w", dev.Name(), err)
	}
	return Device{c, os.NewFile(uintptr(fd), dev.Name())}, nil
}

// Device registers files for one FUSE mount.
type Device struct {
	client *Client
	dev    *os.File
}

// Register makes the open file fd known to the kernel and returns its number there.
func (d Device) Register(fd int) (int32, error) {
	return d.client.ask(opRegister, 0, int(d.dev.Fd()), fd)
}

// Unregister takes a number back, and does not wait until that is done.
func (d Device) Unregister(id int32) error {
	c := d.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(opUnregister, id, int(d.dev.Fd()))
}

// send sends a request; c.mu is held.
func (c *Client) send(op, id int32, fds ...int) error {
	if c.socket == nil {
		return errLost
	}
	err := again(func() error {
		return unix.Sendmsg(int(c.socket.Fd()), pack(op, id), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	})
	if err != nil {
		c.giveUp()
		return errors.Join(errLost, err)
	}
	return nil
}

func (c *Client) ask(op, id int32, fds ...int) (int32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.send(op, id, fds...); err != nil {
		return 0, err
	}
	answer := make([]byte, packet)
	n := 0
	err := again(func() (err error) {
		n, _, err = unix.Recvfrom(int(c.socket.Fd()), answer, 0)
		return err
	})
	if err != nil || n != packet {
		c.giveUp() // an answer that comes late would be taken for that of the next question
		return 0, errors.Join(errLost, err)
	}
	number, errno := unpack(answer)
	switch err := syscall.Errno(errno); err {
	case 0:
		return number, nil
	case unix.ENOTTY, unix.EOPNOTSUPP, unix.ELOOP: // the kernel, or the file system of all, cannot
		c.giveUp()
		return 0, err
	default:
		return 0, err
	}
}

// again calls f until no signal interrupts it: with a bound of time on the socket the
// kernel does not (signal(7)).
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// giveUp ends the other process; c.mu is held.
func (c *Client) giveUp() {
	_ = c.socket.Close()
	c.socket = nil
}
