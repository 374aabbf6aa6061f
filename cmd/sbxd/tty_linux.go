package main

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the caller's terminal while a command inside owns the screen.
type terminal struct {
	in  int // descriptor whose settings are changed
	out int // descriptor whose size is told

	mu    sync.Mutex // guards the fields below
	saved *term.State
}

// openTerminal returns the caller's terminal, or nil when in is none.
func openTerminal(in, out *os.File) *terminal {
	if !isTerminal(in) {
		return nil
	}
	t := &terminal{in: int(in.Fd()), out: int(out.Fd())}
	if !isTerminal(out) {
		t.out = t.in
	}
	return t
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// raw hands every key to the command. Restore must be called on every way out.
func (t *terminal) raw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	saved, err := term.MakeRaw(t.in)
	if err == nil && t.saved == nil {
		t.saved = saved
	}
	return err
}

// restore gives the terminal its settings back; again is harmless.
func (t *terminal) restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_ = term.Restore(t.in, t.saved)
		t.saved = nil
	}
}

// size returns rows and columns; 24 by 80 where nobody knows.
func (t *terminal) size() (rows, cols uint16) {
	const defaultRows, defaultCols = 24, 80
	if t == nil {
		return defaultRows, defaultCols
	}
	ws, err := unix.IoctlGetWinsize(t.out, unix.TIOCGWINSZ)
	if err != nil || ws.Row == 0 || ws.Col == 0 {
		return defaultRows, defaultCols
	}
	return ws.Row, ws.Col
}

// keepForeground makes a read from a terminal that this process does not own fail
// rather than stop the process (SIGTTIN), so that an exec in the background of a
// shell neither stops nor takes keys that are meant for the shell.
func keepForeground() { signal.Ignore(unix.SIGTTIN) }
