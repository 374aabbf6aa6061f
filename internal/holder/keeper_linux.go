package holder

import (
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
)

// keeper is the mounter after its answer, in a session with single files to follow. It
// ends with the shim, or with bubblewrap; when it is killed, the session goes on with
// the files as they are.
type keeper struct {
	files   map[int]*followed // by the number of their step
	inotify int               // 0 until something is watched, or when nothing can be
}

const (
	// pollTime is how often a file is looked at whose directory cannot be watched: the
	// user may not list it, or has no watch or inotify instance left.
	pollTime = 500 * time.Millisecond
	// pause bounds how often files are exchanged that the host replaces without end.
	pause = 20 * time.Millisecond
)

// watchMask is what a new file of a name comes with.
const watchMask = unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_ONLYDIR

// watch watches a directory; one that is watched already keeps its watch. It returns -1
// if it cannot be done.
func (k *keeper) watch(dir *os.File) int {
	if k.inotify == 0 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return -1
		}
		k.inotify = fd
	}
	w, err := unix.InotifyAddWatch(k.inotify, mnt.Name(int(dir.Fd())), watchMask)
	if err != nil {
		return -1
	}
	return w
}

func (k *keeper) add(i int, f *followed) {
	if k.files == nil {
		k.files = map[int]*followed{}
	}
	k.files[i] = f
}

// settle forgets what the session has not been shown, and gives up what was needed for
// the rest of the tree.
func (k *keeper) settle() error {
	maps.DeleteFunc(k.files, func(_ int, f *followed) bool { return f.anchor == nil })
	if err := giveUp(); err != nil {
		return err
	}
	if err := unix.Dup3(0, 2, 0); err != nil { // the shim reads to the end of it
		return err
	}
	debug.SetGCPercent(100)
	debug.FreeOSMemory()
	return nil
}

// run follows the files until the shim closes its end of conn.
func (k *keeper) run(conn *net.UnixConn) int {
	shim, err := conn.File()
	_ = conn.Close()
	if err != nil || k.settle() != nil {
		return 1
	}
	fds := []unix.PollFd{{Fd: int32(shim.Fd()), Events: unix.POLLIN | unix.POLLRDHUP}, {Fd: -1, Events: unix.POLLIN}}
	if k.inotify != 0 {
		fds[1].Fd = int32(k.inotify)
	}
	k.lookAt(func(*followed) bool { return true })
	for {
		_, err := unix.Poll(fds, k.timeout())
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || fds[0].Revents != 0:
			return 0
		}
		changed := k.events()
		k.lookAt(func(f *followed) bool { return changed(f) || k.polled(f) })
		time.Sleep(pause)
	}
}

func (k *keeper) lookAt(which func(*followed) bool) {
	for _, f := range k.files {
		if which(f) {
			f.look()
		}
	}
}

func (k *keeper) polled(f *followed) bool { return f.watch < 0 || f.failed }

// timeout is how long to wait for events, in milliseconds.
func (k *keeper) timeout() int {
	if slices.ContainsFunc(slices.Collect(maps.Values(k.files)), k.polled) {
		return int(pollTime.Milliseconds())
	}
	return -1
}

// maxEvents bounds what is read at once, in bytes; the rest is read the next time.
const maxEvents = 64 << 10

// events reads what happened and tells which files it concerns. When events were lost
// (inotify(7), IN_Q_OVERFLOW), it may be any.
func (k *keeper) events() func(*followed) bool {
	type entry struct {
		watch int
		name  string
	}
	seen, lost := map[entry]bool{}, false
	if k.inotify != 0 {
		buf := make([]byte, maxEvents)
		n, _ := unix.Read(k.inotify, buf)
		for rest := buf[:max(n, 0)]; len(rest) >= unix.SizeofInotifyEvent; {
			mask, length := binary.NativeEndian.Uint32(rest[4:]), int(binary.NativeEndian.Uint32(rest[12:]))
			if mask&unix.IN_Q_OVERFLOW != 0 {
				lost = true
			}
			name := rest[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+length]
			seen[entry{int(int32(binary.NativeEndian.Uint32(rest))), unix.ByteSliceToString(name)}] = true
			rest = rest[unix.SizeofInotifyEvent+length:]
		}
	}
	return func(f *followed) bool { return lost || seen[entry{f.watch, f.name}] }
}

// giveUp gives up, for every thread and for good, new privileges and all capabilities but
// those for mounting and for going through the user's directories. A build with cgo
// cannot do so.
func giveUp() error {
	_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if e == syscall.ENOTSUP {
		return nil
	}
	if e != 0 {
		return os.NewSyscallError("prctl", e)
	}
	const caps = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_DAC_READ_SEARCH
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: caps, Permitted: caps}}
	_, _, e = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data[0])), 0)
	if e != 0 {
		return os.NewSyscallError("capset", e)
	}
	return nil
}
