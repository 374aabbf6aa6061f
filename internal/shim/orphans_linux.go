package shim

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/proc"
)

// orphanTime bounds how long a killed process may take to end.
const orphanTime = 5 * time.Second

// endOrphans ends every child of ours, and what has come to us, the subreaper. A holder
// takes the whole sandbox with it. A child that was not waited for keeps its number, so
// the right one is killed.
func endOrphans() {
	for end := time.Now().Add(orphanTime); !childless() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		kids, err := proc.Children(os.Getpid())
		if err != nil {
			return
		}
		for _, pid := range kids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// childless takes the exit of every child that has ended, and reports whether there is
// none left.
func childless() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR, pid > 0:
		default:
			return err == unix.ECHILD
		}
	}
}
