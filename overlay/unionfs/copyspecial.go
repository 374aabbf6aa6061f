package unionfs

import (
	"golang.org/x/sys/unix"
)

// runSpecial copies a link, FIFO, socket or device: made aside, moved into place.
func (c *copyUp) runSpecial() error {
	f := c.f
	l, ok := f.anyLink(c.n)
	if !ok {
		return unix.ENOENT
	}
	if err := f.statNode(c.n, &c.st); err != nil {
		return err
	}
	tmp, err := f.work.tempName()
	if err != nil {
		return err
	}
	if err := f.charge(0, 1); err != nil {
		return err
	}
	if err := c.buildSpecial(tmp); err != nil {
		f.work.remove(tmp)
		f.charge(0, -1) //nolint:errcheck // gives back
		return err
	}
	return f.placeAside(c.n, l, tmp)
}

func (c *copyUp) buildSpecial(tmp string) error {
	f := c.f
	if c.n.kind == unix.S_IFLNK {
		target, err := f.readLink(c.n)
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(string(target), f.work.fd, tmp); err != nil {
			return err
		}
	} else {
		dev := int(unix.Mkdev(c.st.Rdev_major, c.st.Rdev_minor))
		if err := unix.Mknodat(f.work.fd, tmp, c.n.kind|0o600, dev); err != nil {
			return err
		}
	}
	if c.st.Uid != f.uid || c.st.Gid != f.gid {
		err := unix.Fchownat(f.work.fd, tmp, int(c.st.Uid), int(c.st.Gid), unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && c.st.Uid != f.uid {
			return unix.EOVERFLOW
		}
	}
	if c.n.kind != unix.S_IFLNK {
		if err := chmodAt(f.work.fd, tmp, uint32(c.st.Mode)&0o7777); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(f.work.fd, tmp, times(&c.st), unix.AT_SYMLINK_NOFOLLOW)
}
