package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
)

// Look reads the machine. It changes nothing, never looks at a mountpoint, and goes
// on where something cannot be read; an error means that nothing could be seen.
func Look(ctx context.Context, k Known) (Seen, error) {
	s := Seen{Now: time.Now(), Processes: map[proc.ID]proc.Liveness{}}
	var err error
	if s.Boot, err = proc.Boot(); err != nil {
		return s, fmt.Errorf("read the boot id: %w", err)
	}
	if s.Own, err = proc.NSInode(os.Getpid(), "mnt"); err != nil {
		return s, err
	}
	for _, r := range k.Records {
		for _, id := range ids(r) {
			s.Processes[id] = id.Alive()
		}
	}
	if err := s.namespaces(ctx); err != nil {
		return s, err
	}
	root, err := safefs.OpenReal(k.Root)
	if err != nil {
		return s, err
	}
	defer func() { _ = root.Close() }()
	s.directories(root, k)
	s.sockets(k)
	s.probes(k)
	return s, ctx.Err()
}

func (s *Seen) fault(what string, err error) {
	s.Faults = append(s.Faults, Fault{what, err.Error()})
}

// hiddenFault tells of n processes whose mount namespaces even root may not see.
func hiddenFault(n int) Fault {
	if n == 1 {
		return Fault{"the mount namespace of 1 process", "even root may not look at it here, as in a container"}
	}
	return Fault{fmt.Sprintf("the mount namespaces of %d processes", n), "even root may not look at them here, as in a container"}
}

// ids are the processes that a record names.
func ids(r session.Record) []proc.ID {
	return slices.DeleteFunc([]proc.ID{r.Running.Shim, r.Running.Bwrap, r.Running.Guest},
		func(id proc.ID) bool { return id == proc.ID{} })
}

// namespaces reads each mount namespace once.
func (s *Seen) namespaces(ctx context.Context) error {
	pids, err := proc.All()
	if err != nil {
		return err
	}
	members, hidden := map[uint64][]int{}, 0
	for _, pid := range pids {
		inode, err := proc.NSInode(pid, "mnt")
		switch {
		case errors.Is(err, fs.ErrPermission):
			hidden++
		case err == nil && inode != s.Own:
			members[inode] = append(members[inode], pid)
		}
	}
	if hidden > 0 && os.Geteuid() == 0 { // an ordinary user never sees those of others
		s.Faults = append(s.Faults, hiddenFault(hidden))
	}
	own, err := readTable("self")
	if err != nil {
		return fmt.Errorf("read our own mount table: %w", err)
	}
	own.Inode = s.Own
	s.Namespaces = append(s.Namespaces, own)
	inodes := make([]uint64, 0, len(members))
	for inode := range members {
		inodes = append(inodes, inode)
	}
	slices.Sort(inodes)
	for _, inode := range inodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n, ok := readNamespace(inode, members[inode]); ok {
			s.Namespaces = append(s.Namespaces, n)
		}
	}
	return nil
}

// readNamespace reads a namespace through the first of its processes that lets it; a
// namespace whose processes have all ended meanwhile is none.
func readNamespace(inode uint64, pids []int) (Namespace, bool) {
	for _, pid := range pids {
		n, err := readTable(strconv.Itoa(pid))
		if err != nil {
			continue
		}
		n.Inode = inode
		if n.isOurs() {
			for _, p := range pids {
				if id, err := proc.Of(p); err == nil && inNamespace(p, inode) {
					n.Processes = append(n.Processes, id)
				}
			}
		}
		return n, true
	}
	return Namespace{}, false
}

// inNamespace asks again after the process was named: that process, not an earlier one
// of the same number, is in the namespace.
func inNamespace(pid int, inode uint64) bool {
	now, err := proc.NSInode(pid, "mnt")
	return err == nil && now == inode
}

func readTable(pid string) (Namespace, error) {
	f, err := os.Open("/proc/" + pid + "/mountinfo")
	if err != nil {
		return Namespace{}, err
	}
	defer func() { _ = f.Close() }()
	mounts, partial, err := parseTable(f)
	return Namespace{Mounts: mounts, Partial: partial}, err
}

// sockets lists the sockets of sessions and asks those that nobody is known to serve.
func (s *Seen) sockets(k Known) {
	dir := k.Runtime + "/s"
	d, err := safefs.OpenReal(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.fault(dir, err)
		return
	}
	defer func() { _ = d.Close() }()
	serving := map[session.ID]bool{}
	for _, r := range k.Records {
		serving[r.ID] = s.Processes[r.Running.Shim] == proc.Alive
	}
	entries, err := d.ReadDir("")
	if err != nil {
		s.fault(dir, err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name, ".sock")
		id, perr := session.ParseID(name)
		st, err := d.Lstat(e.Name)
		if !ok || perr != nil || err != nil || st.Type() != unix.S_IFSOCK {
			continue
		}
		sock := Socket{ID: id, Path: dir + "/" + e.Name, Changed: st.Ctime.Time(), Answers: proc.Alive}
		if !serving[id] {
			sock.Answers = answers(mnt.Name(d.Fd()) + "/" + e.Name)
		}
		s.Sockets = append(s.Sockets, sock)
	}
}

// answers connects to a socket and leaves at once. Only a refusal shows that nobody
// listens.
func answers(path string) proc.Liveness {
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = c.Close()
		return proc.Alive
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return proc.Dead
	}
	return proc.Unknown
}
