package unionfs

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// copyUp is one copy of one object that is no directory.
type copyUp struct {
	f        *fs
	n        *node
	cancel   <-chan struct{}
	pid      uint32
	truncate bool

	st       unix.Statx_t // of the lower's object
	tmp      int          // the copy of a regular file, without a name
	reserved bool
	charged  int64
}

func (c *copyUp) run() error {
	if c.n.kind != unix.S_IFREG {
		return c.runSpecial()
	}
	defer func() {
		if c.tmp >= 0 {
			_ = unix.Close(c.tmp)
		}
	}()
	if err := c.build(); err != nil {
		c.giveBack()
		return err
	}
	if err := c.publish(); err != nil {
		c.giveBack()
		return err
	}
	c.n.charged.Store(c.charged)
	return nil
}

func (c *copyUp) giveBack() {
	if c.reserved {
		c.f.charge(-c.charged, -1) //nolint:errcheck // gives back
	}
}

// build makes the copy. Where the lower's file is written to meanwhile, it is made
// anew: a copy is a state that the file had.
func (c *copyUp) build() error {
	for range copyTries {
		again, err := c.buildOnce()
		if err != nil || !again {
			return err
		}
	}
	return unix.EBUSY
}

func (c *copyUp) buildOnce() (again bool, err error) {
	c.n.mu.RLock()
	src, err := c.f.openLocked(c.n, unix.O_RDONLY)
	c.n.mu.RUnlock()
	if err != nil {
		return false, err
	}
	defer unix.Close(src)
	if err := statAt(src, "", &c.st); err != nil {
		return false, err
	}
	if c.tmp < 0 {
		c.tmp, err = openAt(c.f.work.fd, ".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
		if err != nil {
			return false, err
		}
	}
	if !c.truncate {
		if err := c.copyData(src); err != nil {
			return false, err
		}
		var now unix.Statx_t
		if err := statAt(src, "", &now); err != nil {
			return false, err
		}
		if now.Mtime != c.st.Mtime || now.Size != c.st.Size {
			return true, unix.Ftruncate(c.tmp, 0)
		}
	}
	if err := c.f.keepBase(c.n, src); err != nil {
		return false, err
	}
	return false, c.dress(src)
}

// copyData copies bytes and holes: by reference where the file system can.
func (c *copyUp) copyData(src int) error {
	if err := c.reserve(); err != nil {
		return err
	}
	if unix.IoctlFileClone(c.tmp, src) == nil {
		return nil
	}
	size := int64(c.st.Size)
	for at := int64(0); at < size; {
		data, err := unix.Seek(src, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole to the end
			break
		}
		if err != nil {
			data = at // no holes on this file system
		}
		hole, err := unix.Seek(src, data, unix.SEEK_HOLE)
		if err != nil || hole > size {
			hole = size
		}
		if err := c.copyRange(src, data, hole); err != nil {
			return err
		}
		at = hole
	}
	if err := unix.Ftruncate(c.tmp, size); err != nil {
		return err
	}
	if c.f.opt.Durable {
		return unix.Fsync(c.tmp)
	}
	return nil
}

// reserve charges what the copy will take at most.
func (c *copyUp) reserve() error {
	if c.reserved {
		return nil
	}
	if !c.truncate {
		c.charged = int64(c.st.Blocks) * 512
	}
	if err := c.f.charge(c.charged, 1); err != nil {
		return err
	}
	c.reserved = true
	return nil
}

func (c *copyUp) copyRange(src int, from, to int64) error {
	for from < to {
		if c.isKilled() {
			return unix.EINTR
		}
		in, out := from, from
		n, err := unix.CopyFileRange(src, &in, c.tmp, &out, int(min(to-from, copyStep)), 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP):
			n, err = copyThrough(src, c.tmp, from, min(to-from, maxWrite))
		}
		if err != nil {
			return err
		}
		if n == 0 { // cut short meanwhile; the check of times sees it
			return nil
		}
		from += int64(n)
	}
	return nil
}

func copyThrough(src, dst int, at, size int64) (int, error) {
	buf := make([]byte, size)
	n, err := unix.Pread(src, buf, at)
	if err != nil || n == 0 {
		return 0, err
	}
	for done := 0; done < n; {
		m, err := unix.Pwrite(dst, buf[done:n], at+int64(done))
		if err != nil {
			return 0, err
		}
		done += m
	}
	return n, nil
}

// dress gives the copy everything but bytes.
func (c *copyUp) dress(src int) error {
	if err := c.reserve(); err != nil {
		return err
	}
	if err := c.f.chownCopy(c.tmp, &c.st); err != nil {
		return err
	}
	if err := copyAttrs(self(src), self(c.tmp)); err != nil {
		return err
	}
	if err := c.f.markCopied(c.n, c.tmp, c.st.Nlink); err != nil {
		return err
	}
	if err := unix.Fchmod(c.tmp, uint32(c.st.Mode)&0o7777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(c.tmp, "", times(&c.st), unix.AT_EMPTY_PATH)
}

func (c *copyUp) isKilled() bool {
	select {
	case <-c.cancel:
		return killed(c.pid)
	default:
		return false
	}
}

// killed reports whether the thread pid has SIGKILL pending or is gone. Any other
// signal interrupts a request too; a copy goes on then, or a program that is often
// signalled would never get one done.
func killed(pid uint32) bool {
	if pid == 0 {
		return true
	}
	b, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// tick ends a short wait between two looks at a process that was signalled.
func tick() <-chan time.Time { return time.After(50 * time.Millisecond) }
