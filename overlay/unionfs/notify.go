package unionfs

import "sync"

// notice is one thing that the kernel shall forget: a name of a directory, or the
// attributes of a node, and without attr its pages or listing too.
type notice struct {
	node uint64
	name string
	attr bool
}

// notifier sends notices in order. The kernel takes locks of the directory for
// them, so they wait here for a goroutine that holds nothing.
type notifier struct {
	mu     sync.Mutex // guards the fields below
	wake   *sync.Cond
	queue  []notice
	queued map[notice]bool
	busy   bool
	closed bool
}

func newNotifier() *notifier {
	q := &notifier{queued: map[notice]bool{}}
	q.wake = sync.NewCond(&q.mu)
	return q
}

// invalidate queues a notice, once.
func (f *fs) invalidate(n notice) {
	q := f.notifier
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.queued[n] {
		return
	}
	q.queued[n] = true
	q.queue = append(q.queue, n)
	q.wake.Broadcast()
}

// sendNotices runs until the notifier is closed.
func (f *fs) sendNotices() {
	q := f.notifier
	for {
		q.mu.Lock()
		for len(q.queue) == 0 && !q.closed {
			q.busy = false
			q.wake.Broadcast()
			q.wake.Wait()
		}
		if q.closed {
			q.mu.Unlock()
			return
		}
		batch := q.queue
		q.queue = nil
		clear(q.queued)
		q.busy = true
		q.mu.Unlock()
		for _, n := range batch {
			f.send(n)
		}
	}
}

func (f *fs) send(n notice) {
	f.stats.notices.Add(1)
	switch {
	case n.name != "":
		_ = f.device.notify(forgetEntry(n.node, n.name))
	case n.attr:
		_ = f.device.notify(forgetInode(n.node, -1))
	default:
		_ = f.device.notify(forgetInode(n.node, 0))
	}
}

func (q *notifier) close() {
	q.mu.Lock()
	q.closed = true
	q.wake.Broadcast()
	q.mu.Unlock()
}
