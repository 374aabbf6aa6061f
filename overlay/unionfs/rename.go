package unionfs

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// move is one rename or exchange.
type move struct {
	f                *fs
	from, to         *node // directories
	name, as         string
	flags            uint32
	fromFD, toFD     int
	source, target   entry
	moved, replaced  *node
	white            bool // the old name must be a whiteout
	targetBelow      bool // a lower has something at the new name,
	targetBelowIsDir bool // a directory
}

// Rename moves a name. A directory with a part in a lower is not moved (EXDEV, as
// the kernel's overlayfs answers): its entries would have to be copied in one step.
func (f *fs) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, as string) fuse.Status {
	m := &move{f: f, name: name, as: as, flags: in.Flags}
	err := m.run(cancel, in)
	if err == nil && f.opt.Journal != nil {
		f.opt.Journal.Note(Note{Op: Rename, Path: f.pathOf(m.from, name), To: f.pathOf(m.to, as), Pid: in.Pid})
	}
	return status(err)
}

func (m *move) run(cancel <-chan struct{}, in *fuse.RenameIn) error {
	f := m.f
	if m.flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return unix.EINVAL // RENAME_WHITEOUT makes what nobody but us may make
	}
	var err error
	if m.from, err = f.dirNode(in.NodeId); err != nil {
		return err
	}
	if m.to, err = f.dirNode(in.Newdir); err != nil {
		return err
	}
	for _, name := range []string{m.name, m.as} {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if err := m.allowed(in.Pid); err != nil {
		return err
	}
	if err := m.raiseAll(cancel, in.Pid); err != nil {
		return err
	}
	m.lock()
	defer m.unlock()
	if err := m.look(); err != nil {
		return err
	}
	if m.from == m.to && m.name == m.as || m.moved == m.replaced {
		return nil
	}
	return m.do()
}

// allowed checks the masks.
func (m *move) allowed(pid uint32) error {
	f := m.f
	if err := f.takes(m.from, m.name); err != nil {
		return err
	}
	err := f.refuses(m.to, m.as)
	if err != nil {
		f.noteName(Refused, m.to, m.as, pid)
	}
	return err
}

// raiseAll copies up the directories, the source, and of an exchange the target,
// before anything is locked.
func (m *move) raiseAll(cancel <-chan struct{}, pid uint32) error {
	f := m.f
	for _, d := range []*node{m.from, m.to} {
		if err := f.raise(d, cancel, pid, false); err != nil {
			return err
		}
	}
	ends := []link{{m.from, m.name}}
	if m.flags&unix.RENAME_EXCHANGE != 0 {
		ends = append(ends, link{m.to, m.as})
	}
	for _, l := range ends {
		if err := m.raiseEnd(l, cancel, pid); err != nil {
			return err
		}
	}
	return nil
}

func (m *move) raiseEnd(l link, cancel <-chan struct{}, pid uint32) error {
	f := m.f
	var e entry
	l.parent.mu.RLock()
	n, err := f.lookNode(l.parent, l.name, &e)
	l.parent.mu.RUnlock()
	if err != nil {
		return err
	}
	defer f.Forget(n.id, 1)
	if n.dir != nil {
		f.tree.RLock()
		merged := !n.inUpper.Load() || n.lower != 0 && !n.opaque
		f.tree.RUnlock()
		if merged {
			return unix.EXDEV
		}
		return nil
	}
	if f.mustLink(n, &e) {
		return f.linkCopy(l.parent, l.name, n)
	}
	return f.raise(n, cancel, pid, false)
}

// lock takes both directories in the order of their ids.
func (m *move) lock() {
	a, b := m.from, m.to
	if a.id > b.id {
		a, b = b, a
	}
	a.mu.Lock()
	if a != b {
		b.mu.Lock()
	}
}

func (m *move) unlock() {
	m.from.mu.Unlock()
	if m.from != m.to {
		m.to.mu.Unlock()
	}
}

// look finds both ends and checks what the kernel cannot know.
func (m *move) look() error {
	f := m.f
	if m.to.dead {
		return unix.ENOENT
	}
	if err := f.look(m.from, m.name, &m.source); err != nil {
		return err
	}
	if m.source.layer > 0 {
		return unix.ESTALE // replaced by the host since it was raised
	}
	m.moved = f.child(&m.source)
	if m.moved == nil {
		return unix.ESTALE
	}
	err := f.look(m.to, m.as, &m.target)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	there := err == nil
	switch {
	case there && m.flags&unix.RENAME_NOREPLACE != 0:
		return unix.EEXIST
	case !there && m.flags&unix.RENAME_EXCHANGE != 0:
		return unix.ENOENT
	case there:
		if m.replaced = f.child(&m.target); m.replaced == nil {
			return unix.ESTALE
		}
	}
	if m.moved.dir != nil && !m.sameMasks(m.moved, m.to, m.as) ||
		m.flags&unix.RENAME_EXCHANGE != 0 && m.replaced.dir != nil && !m.sameMasks(m.replaced, m.from, m.name) {
		return unix.EXDEV // other names below would be hidden, or shown
	}
	if m.white, _, err = f.below(m.from, m.name); err != nil {
		return err
	}
	m.targetBelow, m.targetBelowIsDir, err = f.below(m.to, m.as)
	return err
}

func (m *move) sameMasks(n, to *node, as string) bool {
	return n.states.equal(m.f.opt.Masks.step(to.states, as))
}
