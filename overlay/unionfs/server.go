package unionfs

import (
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// fs answers the requests of one mount.
type fs struct {
	fuse.RawFileSystem // answers what is not implemented

	opt      Options
	lowers   []lowerLayer
	upperDev uint64
	work     *work
	readOnly bool
	root     *node

	tree sync.RWMutex // guards table, hidden, and what node says it guards
	table
	hidden map[FileID]bool
	ended  map[uint64]*node // all nodes, once the server is closed

	// Held while a mode of the upper is another for a moment: of a directory, and then of
	// what is in it.
	dirModes, modes sync.Mutex
	cache           fdCache
	orphans         orphans
	handles         handles
	copies          copies
	inodes          inodes
	used            usage
	watcher         *watcher
	notifier        *notifier
	device          *device
	closed          chan struct{}

	// index finds copies of files of lowers that have several names.
	index struct {
		once sync.Once
		at   map[key][]string
	}
	copied, several atomic.Bool // the upper has origins; of files with several names
	fresh           bool        // the upper was empty at the start

	seed       maphash.Seed
	uid, gid   uint32
	umask      uint32
	privileged bool // may give files to others
	oneOwner   bool // the mount's namespace has our ids alone
	acl        bool

	stats struct {
		copyUps, passed, panics, overflows, notices atomic.Int64
	}
}

type lowerLayer struct {
	dev uint64
}

// Server is one mount being served.
type Server struct {
	fs    *fs
	done  chan struct{}
	close sync.Once
}

// fdReserve is the part of the descriptors of the process that directories may
// take; open files need the rest.
const fdReserve = 4

// Serve answers the requests for the FUSE mount that dev, an open /dev/fuse, was
// or will be mounted with; it returns when the mount is there. The layers of spec
// are opened anew, and dev is duplicated: the caller may close them. It needs no
// privilege and no namespace, but as root it keeps owners. The uid and gid of the
// process must mean the same in the user namespace of the mount.
func Serve(dev *os.File, spec overlay.Spec, opt Options) (*Server, error) {
	f, err := newFS(spec, opt)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(dev.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		f.abandon()
		return nil, fmt.Errorf("duplicate %s: %w", dev.Name(), err)
	}
	s := &Server{fs: f, done: make(chan struct{})}
	f.device, err = newDevice(fd, f, f.mountOptions(), f.panicked)
	if err != nil {
		f.abandon()
		return nil, fmt.Errorf("serve view: %w", err)
	}
	if f.watcher.file != nil {
		go f.guard(f.watchEvents)
	}
	go f.guard(f.sendNotices)
	go f.guard(f.ageOrphans)
	if opt.Masks.hidesAny() {
		go f.guard(f.scanMasked)
	}
	f.device.held, f.device.gone = opt.Asker != nil, s.Close
	go func() {
		f.device.serve()
		f.release()
		close(s.done)
	}()
	return s, nil
}

// Processors gives the Go scheduler of this process one more for each of n servers: a
// goroutine that waits for a request keeps its own, and with none idle the runtime takes
// it away after 20 µs and looks for another at the next request, which is two futex calls
// and a wakened thread. Call it once.
func Processors(n int) { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n) }

// capabilities are asked of the kernel beyond what go-fuse asks for.
const capabilities = fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2 |
	fuse.CAP_ASYNC_DIO | fuse.CAP_DONT_MASK

func (f *fs) mountOptions() *fuse.MountOptions {
	o := &fuse.MountOptions{
		Name: "sbxd", MaxWrite: maxWrite, MaxBackground: 64, EnableSymlinkCaching: true,
		ExplicitDataCacheControl: true, EnableAcl: f.acl,
		ExtraCapabilities: capabilities, DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		Logger:       log.New(io.Discard, "", 0),
		PanicHandler: func(any) fuse.Status { f.panicked(); return fuse.EIO },
	}
	if f.opt.Backings != nil {
		o.DisabledCapabilities = 0
		o.MaxStackDepth = 1
	}
	if f.opt.Asker == nil {
		o.ExtraCapabilities |= fuse.CAP_NO_OPENDIR_SUPPORT
	}
	return o
}

func (f *fs) panicked() { f.stats.panics.Add(1) }

// guard runs a goroutine whose panic must not end the server.
func (f *fs) guard(run func()) {
	defer func() {
		if recover() != nil {
			f.panicked()
		}
	}()
	run()
}

// Wait returns when the mount is gone and all requests are answered.
func (s *Server) Wait() { <-s.done }

// Close makes every later request fail. What the server holds is closed when the
// mount is gone and the last request is answered (Wait), or with the process.
func (s *Server) Close() { s.close.Do(s.fs.stop) }

// stop ends the goroutines and forgets all nodes, so that no request finds one.
func (f *fs) stop() {
	close(f.closed)
	f.notifier.close()
	if f.watcher.file != nil {
		_ = f.watcher.file.Close()
	}
	f.tree.Lock()
	defer f.tree.Unlock()
	f.ended = f.byID
	f.byID, f.byKey = map[uint64]*node{}, map[key]*node{}
}

// abandon undoes a start.
func (f *fs) abandon() {
	f.stop()
	f.release()
}

// release closes what a server holds that answers nothing any more.
func (f *fs) release() {
	f.closeNodes()
	for range 2 {
		f.orphans.age()
	}
	f.work.close()
}

func (f *fs) closeNodes() {
	f.tree.Lock()
	defer f.tree.Unlock()
	for _, n := range f.ended {
		if n.pin >= 0 {
			_ = unix.Close(n.pin)
			n.pin = -1
		}
		if n.dir != nil {
			n.fdmu.Lock()
			f.cache.closeLocked(n, 0)
			n.fdmu.Unlock()
		}
	}
	f.handles.closeAll()
}

func (t *handles) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range t.all {
		if h != nil {
			_ = unix.Close(h.fd)
			t.all[i] = nil
		}
	}
	t.all, t.free = nil, nil
}

// orphanAge is longer than any request holds a descriptor of a directory.
const orphanAge = 30 * time.Second

func (f *fs) ageOrphans() {
	t := time.NewTicker(orphanAge)
	defer t.Stop()
	for {
		select {
		case <-f.closed:
			return
		case <-t.C:
			f.orphans.age()
		}
	}
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	f := s.fs
	f.tree.RLock()
	nodes := len(f.byID)
	f.tree.RUnlock()
	f.watcher.mu.Lock()
	watches := f.watcher.left
	f.watcher.mu.Unlock()
	return Stats{
		Nodes: nodes, Handles: f.handles.count(), Dirs: int(f.cache.open.Load()), Watches: watches,
		Bytes: f.used.bytes.Load(), Inodes: f.used.inodes.Load(),
		CopyUps: f.stats.copyUps.Load(), Passthroughs: f.stats.passed.Load(),
		Panics: f.stats.panics.Load(), Overflows: f.stats.overflows.Load(), Invalidations: f.stats.notices.Load(),
	}
}

// String names the file system.
func (f *fs) String() string { return "sbxd" }
