package guest

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/session"
)

// chunk is how much output travels in one frame, at most.
const chunk = 32 << 10

// lastBytes bounds what is read after a command has ended: no pipe holds more of what
// was written before (/proc/sys/fs/pipe-max-size, 1 MiB), so a command loses nothing,
// and a process that it left behind cannot hold its end up by writing on.
const lastBytes = 1 << 20

var chunks = sync.Pool{New: func() any { b := make([]byte, chunk); return &b }}

// output is one channel of a command: the reading end of a pipe, or a pty's master.
type output struct {
	fd      int // 1 or 2
	file    *os.File
	hangUp  bool          // close it with the command, whoever still writes
	drained chan struct{} // closed when all was sent that the command has written
}

func newOutput(fd int, file *os.File) *output {
	return &output{fd: fd, file: file, drained: make(chan struct{})}
}

// end makes send finish: what is in the pipe now is the last.
func (o *output) end() { _ = o.file.SetReadDeadline(time.Unix(1, 0)) }

// pump sends the output until its end, or until end was called and the pipe is empty.
// A process that outlives the command may still hold the pipe then; it is read on and
// dropped, so that a background job does not die of SIGPIPE; a terminal is hung up.
func (o *output) pump(w *window, send func(fd int, p []byte)) {
	b := chunks.Get().(*[]byte)
	defer chunks.Put(b)
	more := o.copy(*b, w, send)
	close(o.drained)
	if more && !o.hangUp && o.file.SetReadDeadline(time.Time{}) == nil {
		for more {
			_, err := o.file.Read(*b)
			more = err == nil
		}
	}
	_ = o.file.Close()
}

// copy reports whether the pipe is still open.
func (o *output) copy(b []byte, w *window, send func(int, []byte)) (more bool) {
	for {
		n := w.take(len(b))
		m, err := o.file.Read(b[:n])
		w.add(int64(n - m))
		if m > 0 {
			send(o.fd, b[:m])
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return o.drain(b, w, send)
		case err != nil: // of a pty, EIO
			return false
		}
	}
}

// drain sends what is there without waiting for more.
func (o *output) drain(b []byte, w *window, send func(int, []byte)) (more bool) {
	for left := lastBytes; left > 0; {
		n := w.take(min(len(b), left))
		m, err := readNow(o.file, b[:n])
		w.add(int64(n - max(m, 0)))
		if m > 0 {
			send(o.fd, b[:m])
			left -= m
			continue
		}
		return errors.Is(err, unix.EAGAIN)
	}
	return true
}

// readNow is one read(2) of a non-blocking file. The runtime's own Read refuses once the
// deadline has passed.
func readNow(file *os.File, p []byte) (n int, err error) {
	control(file, func(fd int) error {
		for {
			n, err = unix.Read(fd, p)
			if err != unix.EINTR {
				return nil
			}
		}
	})
	return n, err
}

// sender returns the function that sends output of command id.
func (g *guest) sender(id uint32) func(int, []byte) {
	return func(fd int, p []byte) { g.send(session.Msg{Type: session.MsgOut, ID: id, FD: fd}, p) }
}
