package guest

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/session"
)

// owed is how many bytes of stdin are consumed before the sender is given credit for
// them: seldom enough to be cheap, early enough that it never runs dry.
const owed = session.Window / 4

// input is the stdin of a command: what the shim sent and the command has not read yet,
// at most session.Window bytes.
type input struct {
	mu    sync.Mutex // guards the fields below
	moved *sync.Cond // queue or one of the flags has changed
	queue [][]byte
	size  int
	eof   bool // nothing comes after the queue
	over  bool // the command has ended
}

func newInput() *input {
	in := &input{}
	in.moved = sync.NewCond(&in.mu)
	return in
}

// push queues bytes. A command without stdin, a nil input, drops them.
func (in *input) push(p []byte) error {
	if in == nil || len(p) == 0 {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over || in.eof {
		return nil
	}
	if in.size+len(p) > session.Window {
		return errors.New("stdin beyond the credit given")
	}
	in.queue = append(in.queue, append([]byte(nil), p...))
	in.size += len(p)
	in.moved.Signal()
	return nil
}

func (in *input) finish() { in.mark(false) }
func (in *input) close()  { in.mark(true) }

func (in *input) mark(over bool) {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.eof = true
	in.over = in.over || over
	in.moved.Signal()
}

// next waits for bytes; nil at the end.
func (in *input) next() []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) == 0 && !in.eof {
		in.moved.Wait()
	}
	if len(in.queue) == 0 || in.over {
		return nil
	}
	p := in.queue[0]
	in.queue = in.queue[1:]
	in.size -= len(p)
	return p
}

// pump moves the input into w until it ends and calls credit for what it has taken. A
// command that does not read any more loses the rest, and its sender is not held up.
// It returns the last byte written, which tells a terminal where its line stands, and
// whether the command ended before its input.
func (in *input) pump(w *os.File, credit func(n int64)) (last byte, over bool) {
	var gone bool
	var n int64
	last = '\n'
	for p := in.next(); p != nil; p = in.next() {
		if !gone {
			_, err := w.Write(p)
			gone = err != nil
			last = p[len(p)-1]
		}
		if n += int64(len(p)); n >= owed {
			credit(n)
			n = 0
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return last, in.over
}

// endOfFile types the terminal's end-of-file character: once at the start of a line,
// twice within one (termios(3), VEOF). A terminal in raw mode gets no such thing.
func endOfFile(master *os.File, last byte) {
	var eof []byte
	control(master, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil && t.Lflag&unix.ICANON != 0 && t.Cc[unix.VEOF] != 0 {
			eof = append(eof, t.Cc[unix.VEOF])
		}
		return err
	})
	if len(eof) == 0 {
		return
	}
	if last != '\n' {
		eof = append(eof, eof[0])
	}
	_, _ = master.Write(eof)
}

// control calls f with the descriptor of file, which stays non-blocking.
func control(file *os.File, f func(fd int) error) {
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = f(int(fd)) })
	}
}
