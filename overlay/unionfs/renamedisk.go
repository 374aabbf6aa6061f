package unionfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// do moves on disk and then in the tables.
func (m *move) do() error {
	f := m.f
	var err error
	if m.fromFD, err = f.acquire(m.from, upperLayer); err != nil {
		return err
	}
	defer m.from.release()
	if m.toFD, err = f.acquire(m.to, upperLayer); err != nil {
		return err
	}
	defer m.to.release()
	for _, n := range []*node{m.moved, m.replaced} {
		if n != nil {
			n.moving.Add(1)
			defer n.moving.Add(1)
		}
	}
	if m.flags&unix.RENAME_EXCHANGE != 0 {
		err = m.exchange()
	} else {
		err = m.replace()
	}
	m.from.changed()
	m.to.changed()
	return err
}

// hide marks a directory that comes to lie over one of a lower.
func (m *move) hide(fd int, name string, n *node) error {
	if err := unix.Lsetxattr(selfAt(fd, name), markOpaque, []byte("y"), 0); err != nil {
		return err
	}
	m.f.tree.Lock()
	n.opaque = true
	m.f.tree.Unlock()
	return nil
}

func (m *move) exchange() error {
	f := m.f
	if m.moved.dir != nil && m.targetBelowIsDir {
		if err := m.hide(m.fromFD, m.name, m.moved); err != nil {
			return err
		}
	}
	if m.replaced.dir != nil && m.white {
		if _, isDir, err := f.below(m.from, m.name); err != nil {
			return err
		} else if isDir {
			if err := m.hide(m.toFD, m.as, m.replaced); err != nil {
				return err
			}
		}
	}
	f.tree.Lock()
	defer f.tree.Unlock()
	if err := f.moveDir(m.fromFD, m.name, m.toFD, m.as, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	f.relinkLocked(m.moved, link{m.from, m.name}, link{m.to, m.as})
	f.relinkLocked(m.replaced, link{m.to, m.as}, link{m.from, m.name})
	return nil
}

// replace moves the source over whatever the new name is.
func (m *move) replace() error {
	f := m.f
	pin := -1
	if m.replaced != nil {
		if err := m.clear(); err != nil {
			return err
		}
		pin = f.pinFor(m.replaced, link{m.to, m.as}, &m.target, m.toFD)
	}
	err := m.rename()
	if err != nil {
		if pin >= 0 {
			_ = unix.Close(pin)
		}
		return err
	}
	if m.replaced != nil {
		if m.replaced.dir != nil {
			m.replaced.dead = true
		}
		f.lose(m.replaced, link{m.to, m.as}, &m.target, pin)
	}
	return nil
}

// rename is the step on disk and the new name in the tables.
func (m *move) rename() error {
	f := m.f
	if m.moved.dir != nil && m.targetBelowIsDir {
		if err := m.hide(m.fromFD, m.name, m.moved); err != nil {
			return err
		}
	}
	if m.moved.dir != nil && m.target.whiteout { // a directory cannot replace a device
		return m.renameOverWhiteout()
	}
	flags := uint(0)
	if m.white {
		flags = unix.RENAME_WHITEOUT
	}
	f.tree.Lock()
	defer f.tree.Unlock()
	err := f.moveDir(m.fromFD, m.name, m.toFD, m.as, flags)
	if m.white && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM)) { // not on every file system
		if err = f.moveDir(m.fromFD, m.name, m.toFD, m.as, 0); err == nil {
			err = f.work.whiteoutAt(m.fromFD, m.name)
		}
	}
	if err == nil {
		f.relinkLocked(m.moved, link{m.from, m.name}, link{m.to, m.as})
	}
	return err
}

// renameOverWhiteout exchanges the directory and the whiteout. The whiteout stays
// where a lower has something, and goes where none has.
func (m *move) renameOverWhiteout() error {
	f := m.f
	f.tree.Lock()
	defer f.tree.Unlock()
	if err := f.moveDir(m.fromFD, m.name, m.toFD, m.as, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	f.relinkLocked(m.moved, link{m.from, m.name}, link{m.to, m.as})
	if m.white {
		return nil
	}
	return unix.Unlinkat(m.fromFD, m.name, 0)
}

// clear prepares a directory that is replaced: empty in the view, and without
// whiteouts on disk.
func (m *move) clear() error {
	f := m.f
	if m.replaced.dir == nil {
		return nil
	}
	m.replaced.mu.Lock()
	defer m.replaced.mu.Unlock()
	if err := f.isEmpty(m.replaced); err != nil {
		return err
	}
	if m.target.layer > 0 {
		return nil
	}
	names, err := f.rawNames(m.replaced)
	if err != nil || len(names) == 0 {
		return err
	}
	tmp, err := f.work.tempName()
	if err != nil {
		return err
	}
	defer f.work.remove(tmp)
	if err := f.buildDir(m.replaced, tmp, &m.target.st); err != nil {
		return err
	}
	if m.targetBelowIsDir {
		if err := f.work.setOpaque(tmp); err != nil {
			return err
		}
	}
	return f.moveDir(m.toFD, m.as, f.work.fd, tmp, unix.RENAME_EXCHANGE)
}

// rawNames lists what the upper has in a directory, whiteouts included.
func (f *fs) rawNames(n *node) ([]dirent, error) {
	fd, err := f.acquire(n, upperLayer)
	if err != nil {
		return nil, err
	}
	defer n.release()
	own, err := f.openDir(fd, true)
	if err != nil {
		return nil, err
	}
	defer unix.Close(own)
	return readEntries(own)
}

// relinkLocked replaces a name; fs.tree is held.
func (f *fs) relinkLocked(n *node, from, to link) {
	f.linkNode(n, to)
	f.unlinkNode(n, from)
}
