package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/session"
)

// stdio is what a command has as descriptors 0, 1 and 2, and our ends of it.
type stdio struct {
	child   [3]*os.File // close-on-exec here; fork gives the command copies that are not
	in      *os.File    // nil without stdin
	outputs []*output
	master  *os.File // of a pty, else nil
}

// openStdio makes the pipes or the pty of a command.
func openStdio(c *session.Command) (*stdio, error) {
	s := &stdio{}
	var err error
	if c.TTY {
		err = s.openPty(c)
	} else {
		err = s.openPipes(c)
	}
	if err != nil {
		s.closeAll()
		return nil, err
	}
	return s, nil
}

func (s *stdio) openPipes(c *session.Command) (err error) {
	if c.Stdin {
		s.child[0], s.in, err = pipe(false)
	} else {
		s.child[0], err = os.OpenFile(os.DevNull, os.O_RDWR, 0) // one each: its flags are shared
	}
	for fd := 1; fd <= 2 && err == nil; fd++ {
		var r *os.File
		r, s.child[fd], err = pipe(true)
		if err == nil {
			s.outputs = append(s.outputs, newOutput(fd, r))
		}
	}
	return err
}

// pipe returns both ends; ours, which is the reading one when told so, is non-blocking.
// The two ends are two open files, so the command's own stays as programs expect it.
func pipe(readOurs bool) (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	ours := p[1]
	if readOurs {
		ours = p[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		_, _ = unix.Close(p[0]), unix.Close(p[1])
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return os.NewFile(uintptr(p[0]), "pipe"), os.NewFile(uintptr(p[1]), "pipe"), nil
}

// openPty opens a new terminal of the session's own /dev/pts. Its settings are those of
// the kernel (tty_std_termios: cooked, echo, signals), for UTF-8.
func (s *stdio) openPty(c *session.Command) error {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	s.master = os.NewFile(uintptr(m), "terminal")
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlock a terminal: %w", err)
	}
	// Its own end by descriptor: no path can be put in the way (ioctl_tty(2), Linux 4.13).
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return fmt.Errorf("open a terminal: %w", errno)
	}
	file := os.NewFile(slave, "terminal")
	s.child = [3]*os.File{file, file, file}
	s.in = s.master
	out := newOutput(1, s.master)
	out.hangUp = true
	s.outputs = []*output{out}
	if err := utf8Mode(int(slave)); err != nil {
		return fmt.Errorf("set a terminal up: %w", err)
	}
	return setSize(s.master, c.Rows, c.Cols)
}

// utf8Mode lets the line editor of the kernel erase whole characters.
func utf8Mode(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag |= unix.IUTF8
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// Size of a terminal whose client does not know its own.
const defaultRows, defaultCols = 24, 80

// setSize changes the size of a terminal; the kernel tells its foreground processes by
// SIGWINCH.
func setSize(master *os.File, rows, cols uint16) error {
	if rows == 0 || cols == 0 {
		rows, cols = defaultRows, defaultCols
	}
	var err error
	control(master, func(fd int) error {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
		return err
	})
	return err
}

// fds are the numbers of the command's own ends.
func (s *stdio) fds() []uintptr {
	return []uintptr{s.child[0].Fd(), s.child[1].Fd(), s.child[2].Fd()}
}

// closeChild closes the command's own ends, which it has copies of.
func (s *stdio) closeChild() {
	for _, f := range s.child {
		if f != nil {
			_ = f.Close() // of a terminal thrice: harmless
		}
	}
}

// close ends stdin, and a terminal altogether. A terminal's other end is held until here:
// without it, it would read as ended while the command may still open it by /dev/tty. A
// pipe that is read from closes itself, see pump.
func (s *stdio) close() {
	s.closeChild()
	if s.in != nil {
		_ = s.in.Close()
	}
}

// closeAll is for a command that was never started.
func (s *stdio) closeAll() {
	s.close()
	for _, o := range s.outputs {
		_ = o.file.Close()
	}
	if s.master != nil {
		_ = s.master.Close()
	}
}
