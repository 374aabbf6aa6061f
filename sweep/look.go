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
	return s, ctx.Err()
}

func (s *Seen) fault(format string, a ...any) {
	s.Faults = append(s.Faults, fmt.Sprintf(format, a...))
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
		s.fault("the mount namespaces of %d processes", hidden)
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

// Names of the state root that this package reads.
const (
	sessionsDir = "sessions"
	landsDir    = "lands"
	recordsDir  = "root" // of the system's layout
	recordName  = "session.json"
	upperDir    = "project/upper"
)

// directories lists the directories of sessions below the state root.
func (s *Seen) directories(root *safefs.Dir, k Known) {
	parents := []string{""}
	if k.System {
		parents = nil
		entries, err := root.ReadDir("")
		if err != nil {
			s.fault("%v", err)
		}
		for _, e := range entries {
			if _, err := strconv.ParseUint(e.Name, 10, 32); err == nil && e.IsDir() {
				parents = append(parents, e.Name+"/")
			}
		}
	}
	if k.System { // last: what a record decided about goes before the record
		parents = append(parents, recordsDir+"/")
	}
	known := map[session.ID]bool{}
	for _, r := range k.Records {
		known[r.ID] = r.State != session.Broken
	}
	for _, p := range parents {
		s.base(root, k, p+sessionsDir, known, isSession)
		s.base(root, k, p+landsDir, known, isUnfinished)
	}
	s.base(root, k, "", known, isProbe)
}

// What is listed of a directory of sessions, of one of landings, which land itself
// finishes or takes back, and of the state root.

func isSession(name string) bool {
	id, _ := split(name)
	return id != ""
}

func isUnfinished(name string) bool {
	_, prefix := split(name)
	return prefix != ""
}

func isProbe(name string) bool {
	number, ok := strings.CutPrefix(name, probePrefix)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

func (s *Seen) base(root *safefs.Dir, k Known, name string, known map[session.ID]bool, listed func(string) bool) {
	b, err := root.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.fault("%v", err)
		return
	}
	defer func() { _ = b.Close() }()
	base := Base{Path: strings.TrimSuffix(k.Root+"/"+name, "/")}
	s.locate(&base)
	s.Bases = append(s.Bases, base)
	entries, err := b.ReadDir("")
	if err != nil {
		s.fault("list %s: %v", base.Path, err)
	}
	for _, e := range entries {
		id, _ := split(e.Name)
		if !listed(e.Name) || !e.IsDir() {
			continue
		}
		d, err := describe(b, e.Name, known[id] && e.Name == string(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			s.fault("look at %s/%s: %v", base.Path, e.Name, err)
			continue
		}
		d.Base = base.Path
		s.Dirs = append(s.Dirs, d)
	}
}

// describe looks at one directory; of a session that is known, no further than that.
func describe(b *safefs.Dir, name string, known bool) (Dir, error) {
	st, err := b.Lstat(name)
	if err != nil {
		return Dir{}, err
	}
	d := Dir{Name: name, UID: int(st.UID), Changed: st.Ctime.Time()}
	if known {
		d.Record = true
		return d, nil
	}
	_, err = b.Lstat(name + "/" + recordName)
	d.Record = !errors.Is(err, fs.ErrNotExist)
	d.Work = hasWork(b, name)
	return d, nil
}

// hasWork reports whether a session's upper directory holds something, or cannot be
// read.
func hasWork(b *safefs.Dir, name string) bool {
	errFull := errors.New("not empty")
	err := b.Each(name+"/"+upperDir, func(safefs.Entry) error { return errFull })
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// split takes the name of a session's directory apart; id is empty for any other name.
func split(name string) (id session.ID, prefix string) {
	for _, p := range []string{"", newPrefix, oldPrefix} {
		rest, ok := strings.CutPrefix(name, p)
		if id, err := session.ParseID(rest); ok && err == nil {
			return id, p
		}
	}
	return "", ""
}

// locate finds out which file system a base lies on, and where: the last line of our
// table whose point is the base or above it.
func (s *Seen) locate(b *Base) {
	best := -1
	for _, m := range s.Namespaces[0].Mounts {
		below, ok := rel(m.Point, b.Path)
		if m.Point == b.Path {
			below, ok = "", true
		}
		if !ok || len(m.Point) < best {
			continue
		}
		best = len(m.Point)
		b.Major, b.Minor = m.Major, m.Minor
		b.FSPath = strings.TrimSuffix(strings.TrimSuffix(m.Root, "/")+"/"+below, "/")
	}
}

// sockets lists the sockets of sessions and asks those that nobody is known to serve.
func (s *Seen) sockets(k Known) {
	dir := k.Runtime + "/s"
	d, err := safefs.OpenReal(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.fault("%v", err)
		return
	}
	defer func() { _ = d.Close() }()
	serving := map[session.ID]bool{}
	for _, r := range k.Records {
		serving[r.ID] = s.Processes[r.Running.Shim] == proc.Alive
	}
	entries, err := d.ReadDir("")
	if err != nil {
		s.fault("list %s: %v", dir, err)
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
