package unionfs

import (
	"os"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// device takes requests from /dev/fuse and gives their answers back; what they mean is
// go-fuse's.
//
// One goroutine reads, answers what it has read, and reads again: the next request finds
// it on the CPU where it is, mostly the caller's. (The kernel wakes readers that wait side
// by side in turn, each on another CPU, and a request takes twice the time.) Another one
// reads in its place when requests queue up or the last one was slow, when this one is of
// a kind that may take long, or when it has taken patience.
type device struct {
	file  *os.File
	fd    int // of file
	fs    *fs
	proto *fuse.ProtocolServer
	held  bool   // an opening may wait for somebody's answer
	gone  func() // called by who finds that the mount is gone

	panicked func()

	workers sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	successor sync.Cond  // for the parked
	watch     sync.Cond  // for watchReader
	reading   bool       // somebody waits for a request, or is about to
	parked    int        // workers that wait to be the next to read
	taken     uint64     // requests
	behind    int        // the last so many were read while others waited
	watching  bool
	ended     bool
	idle      []*worker // whose buffers take longer to make than most answers
}

const (
	patience  = 10 * time.Millisecond // to look more often costs more than it gains
	quietness = 5                     // times patience without a request, and nobody watches
	maxParked = 4
	maxIdle   = 16 // until it is quiet

	// queued requests in a row show that several callers wait. One of them alone sends two
	// at a time, since it waits for no answer to FUSE_RELEASE and FUSE_FORGET.
	queued = 32

	// slow is an answer that waited for a disk, or copied much.
	slow = 300 * time.Microsecond
)

// newDevice answers the kernel's first request, FUSE_INIT. The descriptor is the device's
// from here on.
func newDevice(fd int, f *fs, opt *fuse.MountOptions, panicked func()) (*device, error) {
	d := &device{file: os.NewFile(uintptr(fd), "/dev/fuse"), fd: fd, fs: f, proto: fuse.NewProtocolServer(f, opt), panicked: panicked}
	d.successor.L, d.watch.L = &d.mu, &d.mu
	w := newWorker(d)
	n, err := w.read()
	if err == nil {
		err = w.answer(n)
	}
	if err != nil {
		_ = d.file.Close()
		return nil, err
	}
	d.idle = append(d.idle, w)
	return d, nil
}

// serve answers requests until the mount is gone and the last answer is given.
func (d *device) serve() {
	d.workers.Add(1)
	go d.watchReader()
	d.work()
	d.workers.Wait()
	_ = d.file.Close()
}

func (d *device) work() {
	defer d.workers.Done()
	w := d.takeWorker()
	defer d.putWorker(w)
	last := time.Duration(0)
	for d.takePlace() {
		n, err := w.read()
		if err != nil {
			d.end()
			return
		}
		pending := d.pending()
		d.leavePlace(d.mayTakeLong(w.in[:n]) || pending && last > slow, pending)
		begun := time.Now()
		_ = w.answer(n) // a request that was given up wants none
		last = time.Since(begun)
	}
}

func (d *device) takeWorker() *worker {
	d.mu.Lock()
	last := len(d.idle) - 1
	if last < 0 {
		d.mu.Unlock()
		return newWorker(d)
	}
	defer d.mu.Unlock()
	w := d.idle[last]
	d.idle = d.idle[:last]
	return w
}

func (d *device) putWorker(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.idle) < maxIdle {
		d.idle = append(d.idle, w)
	}
}

// takePlace returns when it is the caller's turn to read; false when nothing comes any
// more, or enough others wait for their turn.
func (d *device) takePlace() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.reading && !d.ended {
		if d.parked == maxParked {
			return false
		}
		d.parked++
		d.successor.Wait()
		d.parked--
	}
	d.reading = true
	return !d.ended
}

func (d *device) leavePlace(long, pending bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reading = false
	d.taken++
	d.behind++
	if !pending {
		d.behind = 0
	}
	if long || d.behind >= queued {
		d.behind = 0
		d.callAnother()
	}
	if !d.watching {
		d.watching = true
		d.watch.Signal()
	}
}

func (d *device) callAnother() {
	if d.parked > 0 {
		d.successor.Signal()
		return
	}
	d.workers.Add(1)
	go d.work()
}

// watchReader calls another reader when the last one has been at one request for longer
// than patience.
func (d *device) watchReader() {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, quiet := uint64(0), 0
	for !d.ended {
		same := d.taken == last
		last = d.taken
		switch {
		case !same:
			quiet = 0
		case !d.reading:
			d.callAnother()
		default:
			quiet++
		}
		if quiet == quietness {
			quiet, d.watching, d.idle = 0, false, nil
			for !d.watching && !d.ended {
				d.watch.Wait()
			}
		}
		d.mu.Unlock()
		time.Sleep(patience)
		d.mu.Lock()
	}
}

func (d *device) end() {
	d.mu.Lock()
	d.ended = true
	d.successor.Broadcast()
	d.watch.Broadcast()
	d.mu.Unlock()
	d.gone()
}

// mayTakeLong reports whether somebody else must read before this request is answered.
func (d *device) mayTakeLong(request []byte) bool {
	switch opcode(request) {
	case opFsync, opFsyncDir, opFallocate, opCopyFileRange, opInterrupt:
		return true
	case opOpen, opOpenDir:
		return d.held
	}
	return false
}

// pending reports whether another request can be read at once.
func (d *device) pending() bool {
	waits := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(waits, 0)
	return err == nil && n > 0
}

// notify tells the kernel what it shall forget. It fails when the kernel knows nothing of
// it, or the mount is gone.
func (d *device) notify(message []byte) error {
	_, err := d.file.Write(message)
	return err
}
