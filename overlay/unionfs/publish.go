package unionfs

import (
	"golang.org/x/sys/unix"
)

// publish gives the copy the names that the kernel knows of the original, and
// moves the open descriptors over. A file without names gets none.
func (c *copyUp) publish() error {
	var up unix.Statx_t
	if err := statAt(c.tmp, "", &up); err != nil {
		return err
	}
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	linked := 0
	for _, l := range c.f.allLinks(c.n) {
		err := c.f.place(c.n, l, func(dir int) error {
			err := unix.Linkat(unix.AT_FDCWD, self(c.tmp), dir, l.name, unix.AT_SYMLINK_FOLLOW)
			if err == nil && linked == 0 {
				c.f.adopt(c.n, keyOf(&up))
			}
			return err
		})
		if err != nil && linked == 0 {
			return err
		}
		if err == nil {
			linked++
		}
	}
	if linked == 0 {
		c.f.adopt(c.n, keyOf(&up))
		c.pinCopy()
	}
	c.count(linked)
	return c.switchHandles()
}

// pinCopy keeps a copy without names reachable.
func (c *copyUp) pinCopy() {
	fd, err := reopen(c.tmp, unix.O_PATH)
	if err != nil {
		return
	}
	c.f.tree.Lock()
	old := c.n.pin
	c.n.pin = fd
	c.f.tree.Unlock()
	if old >= 0 {
		_ = unix.Close(old)
	}
}

// count takes note of the names that only the lower has.
func (c *copyUp) count(linked int) {
	c.f.tree.Lock()
	c.n.extra = max(int32(c.st.Nlink)-c.n.lost-int32(linked), 0)
	if linked == 0 {
		c.n.extra = 0
	}
	c.f.tree.Unlock()
}

// switchHandles makes each open descriptor of the lower's file one of the copy, in
// place: a read that runs meanwhile sees either.
func (c *copyUp) switchHandles() error {
	for _, h := range c.n.handles {
		fd, err := reopen(c.tmp, unix.O_RDONLY)
		if err != nil {
			return err
		}
		err = unix.Dup3(fd, h.fd, unix.O_CLOEXEC)
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}
