package unionfs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// newFS opens the layers.
func newFS(spec overlay.Spec, opt Options) (*fs, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	f := &fs{
		RawFileSystem: fuse.NewDefaultRawFileSystem(), opt: opt, readOnly: spec.Upper == nil,
		table:  table{byID: map[uint64]*node{}, byKey: map[key]*node{}, next: rootID},
		hidden: map[FileID]bool{}, closed: make(chan struct{}), seed: maphash.MakeSeed(),
		inodes: inodes{devs: map[uint64]uint64{}, far: map[key]uint64{}},
		copies: copies{jobs: map[*node]*job{}}, notifier: newNotifier(), watcher: &watcher{},
		uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()),
	}
	f.privileged = f.uid == 0
	f.oneOwner = !f.privileged
	f.umask = processUmask()
	f.cache.most = fdBudget()
	if err := f.openLayers(spec); err != nil {
		f.abandon()
		return nil, err
	}
	f.watcher = newWatcher(opt.Watches)
	if err := f.measure(); err != nil {
		f.abandon()
		return nil, fmt.Errorf("measure upper: %w", err)
	}
	return f, nil
}

func fdBudget() int64 {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil || lim.Cur < 64 {
		return 16
	}
	return int64(min(lim.Cur, 1<<20) / fdReserve)
}

// processUmask reads the umask without changing it: it belongs to all threads.
func processUmask() uint32 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0o777
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			u, err := strconv.ParseUint(strings.TrimSpace(v), 8, 32)
			if err == nil {
				return uint32(u)
			}
		}
	}
	return 0o777
}

// openLayers opens the roots and makes the root node. Its descriptors are never
// closed while the server runs.
func (f *fs) openLayers(spec overlay.Spec) error {
	f.lowers = make([]lowerLayer, len(spec.Lowers))
	f.root = &node{id: rootID, kind: unix.S_IFDIR, ino: 1, lookups: 1, pin: -1, dir: &dir{fds: f.noFDs(), refs: 1, inRing: true}}
	f.root.states = f.opt.Masks.start()
	f.byID[rootID] = f.root
	for i, l := range spec.Lowers {
		st, err := f.openRoot(i+1, l)
		if err != nil {
			return fmt.Errorf("open lower %d: %w", i, err)
		}
		f.lowers[i].dev = keyOf(&st).dev
		f.root.lower |= 1 << i
		f.mapInode(keyOf(&st))
		if i == 0 {
			f.root.low = keyOf(&st)
		}
	}
	if f.readOnly {
		return nil
	}
	st, err := f.openRoot(upperLayer, spec.Upper)
	if err != nil {
		return fmt.Errorf("open upper: %w", err)
	}
	f.upperDev = keyOf(&st).dev
	f.root.up = keyOf(&st)
	f.root.inUpper.Store(true)
	work, err := openAt(int(spec.Work.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("open work directory: %w", err)
	}
	defer unix.Close(work)
	if f.work, err = openWork(work); err != nil {
		return err
	}
	return f.readUpper()
}

func (f *fs) openRoot(layer int, dir *os.File) (unix.Statx_t, error) {
	var st unix.Statx_t
	fd, err := openAt(int(dir.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return st, err
	}
	f.root.fds[layer] = fd
	return st, statAt(fd, "", &st)
}

// readUpper finds out what the upper's file system can do and what an earlier
// server left in it.
func (f *fs) readUpper() error {
	fd := f.root.fds[upperLayer]
	names, err := readDir(fd)
	if err != nil {
		return fmt.Errorf("read upper: %w", err)
	}
	f.fresh = len(names) == 0
	var b [2]byte
	n, err := unix.Getxattr(self(fd), markImpure, b[:])
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: its file system keeps no user attributes", overlay.ErrUnsupportedUpper)
	}
	f.copied.Store(err == nil)
	f.several.Store(err == nil && n == 1 && b[0] == 'y')
	_, err = unix.Getxattr(self(fd), "system.posix_acl_default", nil)
	f.acl = err == nil || errors.Is(err, unix.ENODATA)
	return nil
}
