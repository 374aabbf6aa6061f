package api

import (
	"bytes"
	"io"
	"testing"
	"time"
)

func newInput() *input {
	in := &input{}
	in.init()
	return in
}

func never() bool { return false }

// collect takes everything that can be sent now.
func (in *input) collect(t *testing.T, n int) (got []byte) {
	t.Helper()
	for len(got) < n {
		b, ok := in.next(never)
		if !ok || b == nil {
			t.Fatalf("after %d of %d bytes: %q, %v", len(got), n, b, ok)
		}
		got = append(got, b[1:]...)
	}
	return got
}

// What was not acknowledged is sent again over the next connection, and nothing else.
func TestInputIsSentAgainFromWhereItStopped(t *testing.T) {
	in := newInput()
	text := []byte("0123456789")
	in.fill(bytes.NewReader(text))
	if got := in.collect(t, 10); !bytes.Equal(got, text) {
		t.Errorf("%q", got)
	}
	if b, ok := in.next(never); b != nil || !ok {
		t.Errorf("the end: %q, %v", b, ok)
	}
	in.acked(4)
	in.rewind(7) // more had arrived than was acknowledged
	if got := in.collect(t, 3); string(got) != "789" {
		t.Errorf("sent again: %q", got)
	}
	if b, ok := in.next(never); b != nil || !ok {
		t.Errorf("the end is told again: %q, %v", b, ok)
	}
	in.rewind(3) // less than was acknowledged: nothing older is there, nothing comes twice
	if in.start != 7 || in.sent != 7 {
		t.Errorf("at %d, sent %d", in.start, in.sent)
	}
	in.acked(1 << 40)
	if len(in.buf) != 0 || in.start != 10 {
		t.Errorf("an acknowledgement of more than there is: %d bytes from %d", len(in.buf), in.start)
	}
}

// No more than a window is read ahead of the acknowledgements.
func TestInputWindow(t *testing.T) {
	in := newInput()
	r, w := io.Pipe()
	done := make(chan bool)
	go func() { in.fill(r); close(done) }()
	written := make(chan int, 1)
	go func() {
		n, _ := w.Write(make([]byte, 3*window))
		written <- n
		w.Close()
	}()
	time.Sleep(20 * time.Millisecond)
	in.mu.Lock()
	if len(in.buf) > window {
		t.Errorf("%d bytes are held, at most %d", len(in.buf), window)
	}
	in.mu.Unlock()
	total := 0
	for total < 3*window {
		b, ok := in.next(never)
		if !ok || b == nil {
			t.Fatalf("after %d bytes: %v", total, ok)
		}
		total += len(b) - 1
		in.acked(int64(total))
	}
	<-done
	if n := <-written; n != 3*window {
		t.Errorf("%d bytes were read", n)
	}
}

func TestInputEndsWithItsConnection(t *testing.T) {
	in := newInput()
	if _, ok := in.next(func() bool { return true }); ok {
		t.Error("something to send after the end")
	}
	in.close()
	if _, ok := in.next(never); ok {
		t.Error("something to send after close")
	}
	in.fill(bytes.NewReader(make([]byte, 2*window))) // does not wait
}
