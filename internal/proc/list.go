package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// All lists the numbers of the processes that are visible, ascending.
func All() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Children lists the numbers of the living children of pid, ascending. It reads every
// process that there is: the list that the kernel keeps can lack some of them while
// others end (/proc/PID/task/TID/children in proc(5)).
func Children(pid int) ([]int, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p int) bool {
		st, err := stat(p)
		return err != nil || st.gone() || st.ppid != pid
	}), nil
}

// NS identifies a namespace for as long as it exists.
type NS struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// NSOf returns the namespace of pid of a kind: "mnt", "user", "net", "pid".
// ErrGone when the process is; a zombie has none left.
func NSOf(pid int, kind string) (NS, error) {
	var st unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), &st)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		err = ErrGone
	}
	if err != nil {
		return NS{}, fmt.Errorf("read the %s namespace of process %d: %w", kind, pid, err)
	}
	return NS{Dev: st.Dev, Ino: st.Ino}, nil
}

// NSInode is NSOf's inode alone.
func NSInode(pid int, kind string) (uint64, error) {
	ns, err := NSOf(pid, kind)
	return ns.Ino, err
}

// ChildIn returns the number of the child of parent that has the given number in the
// innermost pid namespace but one of its own: what parent calls it when it has cloned it
// into a further one (pid_namespaces(7); NSpid of proc_pid_status(5)).
func ChildIn(parent, number int) (int, error) {
	if pid := childIn(firstChildren(parent), number); pid != 0 {
		return pid, nil
	}
	kids, err := Children(parent)
	if err != nil {
		return 0, err
	}
	if pid := childIn(kids, number); pid != 0 {
		return pid, nil
	}
	return 0, fmt.Errorf("process %d has no child that it calls %d: %w", parent, number, ErrGone)
}

// firstChildren are the children of pid's first thread that the kernel lists, which does
// not take the time of a host with thousands of processes; none without
// CONFIG_PROC_CHILDREN.
func firstChildren(pid int) []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var out []int
	for word := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(word); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// childIn is the one of kids that has the number in the namespace above its own, or 0.
func childIn(kids []int, number int) int {
	for _, pid := range kids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(b)) {
			rest, ok := strings.CutPrefix(line, "NSpid:")
			if levels := strings.Fields(rest); ok && len(levels) > 1 && levels[len(levels)-2] == strconv.Itoa(number) {
				return pid
			}
		}
	}
	return 0
}
