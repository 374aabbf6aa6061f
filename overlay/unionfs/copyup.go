package unionfs

import (
	"errors"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// copies are the copy-ups that run. One object is copied by one request; others
// that need it wait, and can be killed while they do.
type copies struct {
	mu   sync.Mutex // guards the field below
	jobs map[*node]*job
}

type job struct{ done chan struct{} }

// raise makes sure that n, and the directories above it, are in the upper. With
// truncate the bytes of a file are not copied. It returns EINTR if the caller was
// killed.
func (f *fs) raise(n *node, cancel <-chan struct{}, pid uint32, truncate bool) error {
	for !n.inUpper.Load() {
		if f.readOnly || n.fixed {
			return unix.EROFS
		}
		f.copies.mu.Lock()
		if j := f.copies.jobs[n]; j != nil {
			f.copies.mu.Unlock()
			if err := waitFor(j.done, cancel, pid); err != nil {
				return err
			}
			continue // it may have failed for the sake of its own caller
		}
		j := &job{done: make(chan struct{})}
		f.copies.jobs[n] = j
		f.copies.mu.Unlock()
		if err := f.runCopy(n, j, cancel, pid, truncate); err != nil {
			return err
		}
	}
	return nil
}

// runCopy ends the job also if it panics.
func (f *fs) runCopy(n *node, j *job, cancel <-chan struct{}, pid uint32, truncate bool) error {
	defer func() {
		f.copies.mu.Lock()
		delete(f.copies.jobs, n)
		f.copies.mu.Unlock()
		close(j.done)
	}()
	err := f.raiseParents(n, cancel, pid)
	if err != nil {
		return err
	}
	if n.dir != nil {
		err = f.raiseDir(n)
	} else {
		c := &copyUp{f: f, n: n, cancel: cancel, pid: pid, truncate: truncate, tmp: -1}
		err = c.run()
	}
	if err == nil {
		f.stats.copyUps.Add(1)
		f.note(CopyUp, n, pid)
	}
	return err
}

// raiseParents raises the directories that hold n. One that the host has removed
// is no fault if there is another.
func (f *fs) raiseParents(n *node, cancel <-chan struct{}, pid uint32) error {
	var first error
	links := f.allLinks(n)
	for _, l := range links {
		err := f.raise(l.parent, cancel, pid, false)
		if errors.Is(err, unix.EINTR) || err != nil && len(links) == 1 {
			return err
		}
		if err == nil {
			return nil
		}
		first = err
	}
	return first
}

// waitFor waits for done or until the process pid is being killed.
func waitFor(done, cancel <-chan struct{}, pid uint32) error {
	for {
		select {
		case <-done:
			return nil
		case <-cancel:
			if killed(pid) {
				return unix.EINTR
			}
			select {
			case <-done:
				return nil
			case <-tick():
			}
		}
	}
}

// raiseDir makes the directory of the upper that belongs to one of a lower: built
// aside, moved into place whole.
func (f *fs) raiseDir(n *node) error {
	l, ok := f.anyLink(n)
	if !ok {
		return unix.ENOENT
	}
	var st unix.Statx_t
	if err := f.statDir(n, &st); err != nil {
		return err
	}
	tmp, err := f.work.tempName()
	if err != nil {
		return err
	}
	if err := f.charge(dirBytes, 1); err != nil {
		return err
	}
	if err := f.buildDir(n, tmp, &st); err != nil {
		f.work.remove(tmp)
		f.charge(-dirBytes, -1) //nolint:errcheck // gives back
		return err
	}
	return f.placeAside(n, l, tmp)
}

// placeAside is place for what was built under the name tmp in work.
func (f *fs) placeAside(n *node, l link, tmp string) error {
	err := f.place(n, l, func(dir int) error {
		if err := f.moveDir(f.work.fd, tmp, dir, l.name, unix.RENAME_NOREPLACE); err != nil {
			return err
		}
		var up unix.Statx_t
		if err := statAt(dir, l.name, &up); err != nil {
			return err
		}
		f.adopt(n, keyOf(&up))
		return nil
	})
	if err != nil {
		f.work.remove(tmp)
	}
	return err
}

// buildDir makes tmp in work a copy of the directory n without its entries.
func (f *fs) buildDir(n *node, tmp string, st *unix.Statx_t) error {
	if err := unix.Mkdirat(f.work.fd, tmp, 0o700); err != nil {
		return err
	}
	fd, err := openAt(f.work.fd, tmp, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := f.chownCopy(fd, st); err != nil {
		return err
	}
	err = f.withPath(n, func(path string) error { return copyAttrs(path, self(fd)) })
	if err != nil && !errors.Is(err, unix.EXDEV) {
		return err
	}
	if err := unix.Fchmod(fd, uint32(st.Mode)&0o7777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", times(st), unix.AT_EMPTY_PATH)
}

// place brings a finished copy of n to a name: put moves it there and takes note,
// under the lock of the directory. The directory keeps its times: the view has not
// changed.
func (f *fs) place(n *node, l link, put func(dir int) error) error {
	d := l.parent
	d.mu.Lock()
	defer d.mu.Unlock()
	fd, err := f.acquire(d, upperLayer)
	if err != nil {
		return err
	}
	defer d.release()
	var st unix.Statx_t
	if err := statAt(fd, "", &st); err != nil {
		return err
	}
	if d.dead || !f.hasLink(n, l) {
		return unix.ESTALE
	}
	if err := f.writable(fd, func() error { return put(fd) }); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", times(&st), unix.AT_EMPTY_PATH)
}

func (f *fs) hasLink(n *node, l link) bool {
	return slices.Contains(f.allLinks(n), l)
}

// writable calls use, which changes a directory of the upper.
func (f *fs) writable(fd int, use func() error) error {
	err := use()
	if errors.Is(err, unix.EACCES) {
		return f.opened(fd, err, use)
	}
	return err
}

// adopt makes the object with identity up that of n.
func (f *fs) adopt(n *node, up key) {
	f.tree.Lock()
	defer f.tree.Unlock()
	n.up = up
	f.byKey[up] = n
	n.inUpper.Store(true)
}

// chownCopy gives a copy the owner of its original. A file of somebody else
// cannot be copied by a server without rights; a foreign group can.
func (f *fs) chownCopy(fd int, st *unix.Statx_t) error {
	if st.Uid == f.uid && st.Gid == f.gid {
		return nil
	}
	err := unix.Fchown(fd, int(st.Uid), int(st.Gid))
	if errors.Is(err, unix.EPERM) && st.Uid == f.uid {
		st.Mode &^= unix.S_ISGID
		return nil
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
		return unix.EOVERFLOW
	}
	return err
}

// copyAttrs copies the extended attributes but marks. Those that the upper's file
// system or this user cannot have are left out, unless they are the user's.
func copyAttrs(from, to string) error {
	names, err := listAttrs(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if reserved(name) {
			continue
		}
		value, err := readAttr(from, name)
		if err == nil {
			err = unix.Setxattr(to, name, value, 0)
		}
		if err != nil && (len(name) < 5 || name[:5] != "user.") {
			continue
		}
		if err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
	}
	return nil
}

func readAttr(path, name string) ([]byte, error) {
	var small [256]byte
	n, err := unix.Getxattr(path, name, small[:])
	if errors.Is(err, unix.ERANGE) {
		big := make([]byte, 1<<16)
		n, err = unix.Getxattr(path, name, big)
		return big[:max(n, 0)], err
	}
	return small[:max(n, 0)], err
}

func times(st *unix.Statx_t) []unix.Timespec {
	return []unix.Timespec{
		{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)},
		{Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)},
	}
}

// keepBase gives the hook what the lower has.
func (f *fs) keepBase(n *node, fd int) error {
	if f.opt.Bases == nil {
		return nil
	}
	own, err := reopen(fd, unix.O_RDONLY)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(own), "lower")
	defer file.Close()
	if err := f.opt.Bases.Keep(f.path(n), file); err != nil {
		return unix.EIO
	}
	return nil
}
