package api

import (
	"context"
	"io"
	"sync"

	"github.com/coder/websocket"
)

// input is the standard input of a command on its way: what was read from the caller
// and not yet acknowledged, so that it can be sent again over another connection.
type input struct {
	mu sync.Mutex // guards the fields below
	// buf holds the bytes [start, start+len(buf)) of the stream; sent is how far this
	// connection has sent them.
	buf         []byte
	start, sent int64
	ended       bool // the caller's stream is at its end
	eofSent     bool
	closed      bool
	changed     *sync.Cond
}

func (in *input) init() { in.changed = sync.NewCond(&in.mu) }

// fill reads the caller's stream, at most a window ahead of the acknowledgements.
func (in *input) fill(r io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		in.mu.Lock()
		for len(in.buf)+n > window && !in.closed {
			in.changed.Wait()
		}
		in.buf = append(in.buf, b[:n]...)
		in.ended = in.ended || err != nil
		done := in.ended || in.closed
		in.changed.Broadcast()
		in.mu.Unlock()
		if done {
			return
		}
	}
}

func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.changed.Broadcast()
}

// acked drops what arrived.
func (in *input) acked(received int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.drop(received)
	in.changed.Broadcast()
}

func (in *input) drop(received int64) {
	n := min(max(received-in.start, 0), int64(len(in.buf)))
	in.buf = in.buf[n:]
	in.start += n
	in.sent = max(in.sent, in.start)
}

// rewind begins a connection whose other side has received that many bytes.
func (in *input) rewind(received int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.drop(received)
	in.sent = in.start
	in.eofSent = false
	in.changed.Broadcast()
}

// next waits for something to send: bytes, or the end of the stream (nil, true). It
// returns nil, false when done tells so.
func (in *input) next(done func() bool) ([]byte, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		switch unsent := in.buf[in.sent-in.start:]; {
		case done() || in.closed:
			return nil, false
		case len(unsent) > 0:
			n := min(len(unsent), 32<<10)
			in.sent += int64(n)
			return append([]byte{ChannelStdin}, unsent[:n]...), true
		case in.ended && !in.eofSent:
			in.eofSent = true
			return nil, true
		}
		in.changed.Wait()
	}
}

// send carries the caller's side over one connection until it breaks or ctx ends.
func (x *execution) send(ctx context.Context, ws *websocket.Conn) {
	stop := context.AfterFunc(ctx, func() {
		x.input.mu.Lock()
		defer x.input.mu.Unlock()
		x.input.changed.Broadcast()
	})
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { x.control(ctx, ws) })
	for {
		b, ok := x.input.next(func() bool { return ctx.Err() != nil })
		switch {
		case !ok:
			return
		case b == nil:
			if writeJSON(ctx, ws, Event{Type: "eof"}) != nil {
				return
			}
		default:
			if ws.Write(ctx, websocket.MessageBinary, b) != nil {
				return
			}
		}
	}
}

// control sends resizes and signals.
func (x *execution) control(ctx context.Context, ws *websocket.Conn) {
	for {
		var e Event
		select {
		case <-ctx.Done():
			return
		case s, ok := <-x.streams.Resize:
			if !ok {
				x.streams.Resize = nil
				continue
			}
			e = Event{Type: "resize", Rows: s.Rows, Cols: s.Cols}
		case s, ok := <-x.streams.Signals:
			if !ok {
				x.streams.Signals = nil
				continue
			}
			e = Event{Type: "signal", Signal: s}
		}
		if writeJSON(ctx, ws, e) != nil {
			return
		}
	}
}
