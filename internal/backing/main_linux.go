package backing

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The descriptors that Main starts with.
const (
	socketFD = 3
	stateFD  = 4 // a directory of the file system that files must be of
)

// Start starts the process that registers for the user uid, whose files are on the file
// system of state, and returns the client's socket. Only root may. The process ends when
// that socket is closed everywhere; the caller waits for it.
func Start(uid, gid int, state *os.File) (*os.File, *os.Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the socket of backing files: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "backing"), os.NewFile(uintptr(pair[1]), "backing")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	defer null.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{"sbxd", Stage, strconv.Itoa(uid), strconv.Itoa(gid)}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"SBXD_STAGE=" + Stage},
		Files: []*os.File{null, null, null, theirs, state},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = ours.Close()
		return nil, nil, fmt.Errorf("start the process that registers backing files: %w", err)
	}
	return ours, p, nil
}

// Main is the stage: it answers until its socket has no other end.
func Main(args []string) int {
	runtime.LockOSThread() // capabilities and file system ids go by thread
	if len(args) != 2 {
		return 2
	}
	uid, err := strconv.Atoi(args[0])
	gid, err2 := strconv.Atoi(args[1])
	if errors.Join(err, err2) != nil || reduce(uid, gid) != nil {
		return 1
	}
	var state unix.Statx_t
	if stat(stateFD, &state) != nil {
		return 1
	}
	_ = unix.Close(stateFD)
	r := registrar{uid: uint32(uid), major: state.Dev_major, minor: state.Dev_minor}
	for r.answer(socketFD) {
	}
	return 0
}

// reduce keeps one capability and takes the user's ids where files are concerned: whatever
// the kernel does with a file afterwards, it does by these credentials.
func reduce(uid, gid int) error {
	if err := unix.Setgroups(nil); err != nil {
		return err
	}
	// These two return the ids that were there before.
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	one := uint32(1) << unix.CAP_SYS_ADMIN
	data := [2]unix.CapUserData{{Effective: one, Permitted: one}}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	if got, _ := unix.SetfsuidRetUid(-1); got != uid {
		return fmt.Errorf("the file system uid is %d, want %d", got, uid)
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// registrar knows whose files may be registered.
type registrar struct {
	uid, major, minor uint32
}

// answer answers one request; false when there will be no other.
func (r registrar) answer(socket int) bool {
	p, space := make([]byte, packet+1), make([]byte, unix.CmsgSpace(8*4))
	n, oob, flags, _, err := unix.Recvmsg(socket, p, space, unix.MSG_CMSG_CLOEXEC)
	switch {
	case errors.Is(err, unix.EINTR):
		return true
	case err != nil, n == 0:
		return false
	}
	fds := received(space[:oob])
	number, err := int32(0), error(unix.EINVAL)
	if n == packet && flags&unix.MSG_CTRUNC == 0 {
		number, err = r.do(p[:n], fds)
	}
	errno := syscall.Errno(0)
	if err != nil && !errors.As(err, &errno) {
		errno = unix.EINVAL
	}
	// Before the descriptors are closed, which the file systems of others can delay.
	var answered error
	if op, _ := unpack(p); n != packet || op != opUnregister {
		answered = unix.Sendto(socket, pack(number, int32(errno)), unix.MSG_NOSIGNAL, nil)
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return answered == nil
}

func received(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func (r registrar) do(p []byte, fds []int) (int32, error) {
	op, id := unpack(p)
	switch {
	case op == opRegister && len(fds) == 2:
		if err := errors.Join(fuseDevice(fds[0]), r.may(fds[1])); err != nil {
			return 0, err
		}
		m := backingMap{fd: int32(fds[1])}
		return ioctl(fds[0], backingOpen, unsafe.Pointer(&m))
	case op == opUnregister && len(fds) == 1:
		if err := fuseDevice(fds[0]); err != nil {
			return 0, err
		}
		return ioctl(fds[0], backingClose, unsafe.Pointer(&id))
	}
	return 0, unix.EINVAL
}

// fuseDev is the number of /dev/fuse (Documentation/admin-guide/devices.txt).
const fuseMajor, fuseMinor = 10, 229

// fuseDevice reports whether fd is an open /dev/fuse: the number of a request means
// something else to another device.
func fuseDevice(fd int) error {
	var st unix.Statx_t
	if err := stat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev_major != fuseMajor || st.Rdev_minor != fuseMinor {
		return unix.ENODEV
	}
	return nil
}

// may reports whether a file may be registered. The kernel opens it again as callers of the
// view wish, so who asks must have it open for reading and for writing at any place.
func (r registrar) may(fd int) error {
	var st unix.Statx_t
	if err := stat(fd, &st); err != nil {
		return err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch {
	case err != nil:
		return err
	case flags&unix.O_ACCMODE != unix.O_RDWR, flags&(unix.O_APPEND|unix.O_PATH) != 0:
		return unix.EACCES
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return unix.EINVAL
	case st.Dev_major != r.major || st.Dev_minor != r.minor:
		return unix.EXDEV
	case st.Uid != r.uid:
		return unix.EPERM
	}
	return nil
}

// stat asks the file system of fd nothing that it would have to ask somebody else: it can
// be one of the user's own.
func stat(fd int, st *unix.Statx_t) error {
	const want = unix.STATX_TYPE | unix.STATX_UID
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, want, st); err != nil {
		return err
	}
	if st.Mask&want != want {
		return unix.EINVAL
	}
	return nil
}

// backingMap is struct fuse_backing_map (linux/fuse.h).
type backingMap struct {
	fd      int32
	_       uint32
	padding uint64
}

// The two requests of FUSE passthrough (linux/fuse.h).
const (
	backingOpen  = 0x4010e501 // FUSE_DEV_IOC_BACKING_OPEN
	backingClose = 0x4004e502 // FUSE_DEV_IOC_BACKING_CLOSE
)

func ioctl(fd int, request uintptr, arg unsafe.Pointer) (int32, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if errno != 0 {
		return 0, errno
	}
	return int32(n), nil
}
