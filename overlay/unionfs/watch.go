package unionfs

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher watches directories of the lowers, so that the kernel may cache what it
// saw there. Events are hints: what is true is looked up again.
type watcher struct {
	file *os.File // nil: nothing is watched
	most int

	mu   sync.Mutex // guards the fields below
	dirs map[int32][]watched
	left int
}

// watched is a directory that a watch stands for; one inode may be part of several.
type watched struct {
	n     *node
	layer int
}

// watchMask are the events after which a name, an attribute or bytes may be others. A
// program that maps a file and writes shows at its close only.
const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE |
	unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// watchShare is the part of the watches of a user that one server takes at most.
const watchShare = 8

func newWatcher(budget int) *watcher {
	w := &watcher{dirs: map[int32][]watched{}}
	if budget == 0 {
		b, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
		if err == nil {
			budget, _ = strconv.Atoi(strings.TrimSpace(string(b)))
			budget /= watchShare
		}
	}
	if budget <= 0 {
		return w
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return w
	}
	w.file, w.most = os.NewFile(uintptr(fd), "inotify"), budget
	return w
}

// watch watches the parts that a directory has in lowers, if it does not yet.
func (f *fs) watch(n *node) {
	w := f.watcher
	if w.file == nil || n.watched.Load() || n.unwatchable.Load() {
		return
	}
	f.tree.RLock()
	lower := n.lower
	if n.opaque {
		lower = 0
	}
	f.tree.RUnlock()
	if lower == 0 {
		return
	}
	for i := range f.lowers {
		if lower&(1<<i) != 0 && !f.watchPart(n, i+1) {
			n.unwatchable.Store(true)
			return
		}
	}
	n.watched.Store(true)
}

func (f *fs) watchPart(n *node, layer int) bool {
	w := f.watcher
	fd, err := f.acquire(n, layer)
	if err != nil {
		return false
	}
	defer n.release()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left >= w.most {
		return false
	}
	wd, err := w.add(self(fd))
	if err != nil {
		return false
	}
	for _, have := range w.dirs[wd] {
		if have.n == n {
			return true
		}
	}
	if len(w.dirs[wd]) == 0 {
		w.left++
	}
	w.dirs[wd] = append(w.dirs[wd], watched{n, layer})
	n.wds = append(n.wds, wd)
	return true
}

func (w *watcher) add(path string) (int32, error) {
	var wd int
	var err error
	conn, cerr := w.file.SyscallConn()
	if cerr != nil {
		return 0, cerr
	}
	cerr = conn.Control(func(fd uintptr) {
		wd, err = unix.InotifyAddWatch(int(fd), path, watchMask|unix.IN_ONLYDIR|unix.IN_EXCL_UNLINK)
	})
	if err == nil {
		err = cerr
	}
	return int32(wd), err
}

// unwatch forgets the watches of a directory.
func (f *fs) unwatch(n *node) {
	w := f.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	n.watched.Store(false)
	for _, wd := range n.wds {
		dirs := w.dirs[wd]
		for i := range dirs {
			if dirs[i].n == n {
				dirs = append(dirs[:i:i], dirs[i+1:]...)
				break
			}
		}
		if len(dirs) > 0 {
			w.dirs[wd] = dirs
			continue
		}
		if _, there := w.dirs[wd]; there {
			delete(w.dirs, wd)
			w.left--
			w.remove(wd)
		}
	}
	n.wds = nil
}

func (w *watcher) remove(wd int32) {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_, _ = unix.InotifyRmWatch(int(fd), uint32(wd))
	})
}

// watchEvents reads events until the watcher is closed.
func (f *fs) watchEvents() {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.watcher.file.Read(buf)
		if err != nil {
			return
		}
		f.handleEvents(buf[:n])
	}
}

// handleEvents turns a batch of events (inotify(7)) into notices, each once.
func (f *fs) handleEvents(b []byte) {
	const header = 16
	done := map[eventKey]bool{}
	for len(b) >= header {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		size := int(binary.NativeEndian.Uint32(b[12:]))
		if size < 0 || header+size > len(b) {
			return
		}
		name := strings.TrimRight(string(b[header:header+size]), "\x00")
		b = b[header+size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			f.stats.overflows.Add(1)
			f.expireAll()
			continue
		}
		k := eventKey{wd, name, mask & (unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVE)}
		if done[k] {
			continue
		}
		done[k] = true
		f.watcher.mu.Lock()
		dirs := append([]watched(nil), f.watcher.dirs[wd]...)
		f.watcher.mu.Unlock()
		for _, d := range dirs {
			f.event(d, name, mask)
		}
	}
}

type eventKey struct {
	wd   int32
	name string
	mask uint32
}

// event tells the kernel what it must look at again.
func (f *fs) event(d watched, name string, mask uint32) {
	if mask&unix.IN_IGNORED != 0 {
		f.unwatch(d.n)
		return
	}
	if name == "" {
		f.invalidate(notice{node: d.n.id, attr: true})
		return
	}
	if f.held(d.n, name) {
		return // the view has something else there
	}
	if mask&(unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE) != 0 {
		d.n.changed()
		if !f.carries(link{d.n, name}) {
			f.invalidate(notice{node: d.n.id, name: name})
		}
		f.invalidate(notice{node: d.n.id})
	}
	if f.opt.Masks.hides(d.n.states, name) {
		f.spotName(d, name)
		return
	}
	var st unix.Statx_t
	fd, err := f.acquire(d.n, d.layer)
	if err != nil {
		return
	}
	err = statAt(fd, name, &st)
	d.n.release()
	if err != nil {
		return
	}
	f.tree.RLock()
	n := f.byKey[keyOf(&st)]
	f.tree.RUnlock()
	if n == nil || n.inUpper.Load() {
		return
	}
	f.invalidate(notice{node: n.id, attr: mask&(unix.IN_MODIFY|unix.IN_CLOSE_WRITE) == 0})
}
