package guest

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reap is the only place that waits for processes: a session's orphans come to pid 1,
// and two waiters would take each other's.
func (g *guest) reap() {
	for {
		pid := nextDead()
		if pid == 0 {
			select {
			case <-g.born:
			case g.none <- struct{}{}:
			}
			continue
		}
		g.forks.Lock()
		c := g.byPid[pid]
		delete(g.byPid, pid) // before the pid is free for another
		g.forks.Unlock()
		if c != nil {
			c.reap(pid)
		} else {
			_ = waitFor(pid)
		}
	}
}

// nextDead waits until a child has died, and leaves it a zombie: its pid cannot be
// another process's yet. It returns 0 when there is no child.
func nextDead() int {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			// si_pid follows three ints and the padding of a 64-bit union (sigaction(2)).
			return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 16)))
		case unix.EINTR:
		default:
			return 0
		}
	}
}

func waitFor(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}
