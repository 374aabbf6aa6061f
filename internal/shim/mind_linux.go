package shim

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// mind ends this process, and with it the sandbox, when the launcher goes away or gives
// up, which is to close its end: nobody would ever know of the session. begun is called
// when the start is through.
func mind() (begun func()) {
	var through atomic.Bool
	// A descriptor and a thread of its own: what the launcher sends is not for it.
	fd, err := unix.FcntlInt(launchFD, unix.F_DUPFD_CLOEXEC, launchFD+1)
	if err != nil {
		return func() {} // no launcher, which Main finds out
	}
	go func() {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		for {
			if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if through.CompareAndSwap(false, true) {
			endOrphans()
			os.Exit(1)
		}
		_ = unix.Close(fd)
	}()
	return func() {
		if !through.CompareAndSwap(false, true) {
			select {} // it is ending
		}
	}
}
