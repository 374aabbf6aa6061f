package shim

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/masks"
)

// A mask lies on a name. When the host removes that name, or puts another file in its
// place, the kernel drops the mount in every namespace (rename(2) and unlink(2) on a
// mountpoint, since Linux 3.18). A view is the session's own, so nothing of the host
// reaches the names in it; but a mask in a carve-out or in the base lies on the host's.

// guard ends the session when such a mask is lost. Nothing inside can change mounts, so
// nothing else ever changes the table.
func (s *shim) guard(spec holder.Spec, guest proc.ID) error {
	paths := exposed(spec)
	if len(paths) == 0 {
		return nil
	}
	// Not by os.Open: Go's own poller would take the news of a change away.
	name := fmt.Sprintf("/proc/%d/mountinfo", guest.Pid)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch the masks: %w", err)
	}
	table := os.NewFile(uintptr(fd), name)
	go func() {
		defer table.Close()
		for {
			lost, err := firstLost(table, paths)
			if err != nil {
				return // the session has ended
			}
			if lost != "" {
				s.execs.End(fmt.Sprintf("the host replaced or removed %.200q, and with it the mask that hid it went", lost))
				return
			}
			// POLLERR comes with each change (proc_pid_mountinfo(5)).
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
			if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
				return
			}
		}
	}()
	return nil
}

// exposed lists the masks that lie on names of the host's.
func exposed(spec holder.Spec) []string {
	var out []string
	for i, s := range spec.Steps {
		if s.Op != masks.Cover && s.Op != masks.CoverLink {
			continue
		}
		private := slices.ContainsFunc(spec.Views, func(v holder.View) bool { return masks.Within(s.Path, v.Path) })
		for _, below := range spec.Steps[:i] {
			switch {
			case below.Path == s.Path || !masks.Within(s.Path, below.Path):
			case below.Op == masks.BindRO, below.Op == masks.BindRW:
				private = false
			case below.Op == masks.ViewRO, below.Op == masks.Cover:
				private = true
			}
		}
		if !private {
			out = append(out, s.Path)
		}
	}
	return out
}

// firstLost returns a path that is no mountpoint of the table, or "".
func firstLost(table *os.File, paths []string) (string, error) {
	if _, err := table.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	mounts, err := mountinfo.GetMountsFromReader(table, nil)
	if err != nil || len(mounts) == 0 {
		return "", io.EOF
	}
	at := make(map[string]bool, len(mounts))
	for _, m := range mounts {
		at[m.Mountpoint] = true
	}
	for _, p := range paths {
		if !at[p] {
			return p, nil
		}
	}
	return "", nil
}
