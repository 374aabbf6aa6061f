package guest

import "sync"

// window is the shim's credit for the output of one command, in bytes.
type window struct {
	mu    sync.Mutex // guards the fields below
	more  *sync.Cond // avail has grown
	avail int64
}

func (w *window) init(avail int64) {
	w.avail = avail
	w.more = sync.NewCond(&w.mu)
}

// take waits for credit and takes up to n bytes of it.
func (w *window) take(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.avail <= 0 {
		w.more.Wait()
	}
	n = min(n, int(w.avail))
	w.avail -= int64(n)
	return n
}

// add gives credit, or gives back what was taken and not used.
func (w *window) add(n int64) {
	if n <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.avail += n
	w.more.Broadcast()
}
