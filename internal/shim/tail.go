package shim

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// tailSize is how much of the sandbox's standard error is kept, in bytes: bubblewrap
// and the guest say one line before they end.
const tailSize = 4 << 10

// tail keeps the end of a stream that nobody reads.
type tail struct {
	done chan struct{}
	mu   sync.Mutex // guards buf
	buf  []byte
}

// listen makes the pipe that becomes standard error of holder, bubblewrap and guest,
// and returns their end.
func (in *inner) listen() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the error pipe: %w", err)
	}
	t := &tail{done: make(chan struct{})}
	in.stderr = t
	go func() {
		defer close(t.done)
		defer r.Close()
		_, _ = io.Copy(t, r)
	}()
	return w, nil
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

// wait returns what was said once every writer has ended.
func (t *tail) wait() string {
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.buf), "?"))
}
