package unionfs

import (
	"context"

	"golang.org/x/sys/unix"
)

// What a node is in the journal for already.
const (
	noteRead  = 1
	noteWrite = 2
)

func (f *fs) note(op Op, n *node, pid uint32) {
	if f.opt.Journal != nil {
		f.opt.Journal.Note(Note{Op: op, Path: f.path(n), Pid: pid})
	}
}

func (f *fs) noteName(op Op, d *node, name string, pid uint32) {
	if f.opt.Journal != nil {
		f.opt.Journal.Note(Note{Op: op, Path: f.pathOf(d, name), Pid: pid})
	}
}

// noteOpen notes the first opening of each kind.
func (f *fs) noteOpen(n *node, pid uint32, write bool) {
	if f.opt.Journal == nil {
		return
	}
	op, level := Read, uint32(noteRead)
	if write {
		op, level = Write, noteWrite
	}
	for {
		have := n.noted.Load()
		if have >= level {
			return
		}
		if n.noted.CompareAndSwap(have, level) {
			f.note(op, n, pid)
			return
		}
	}
}

// ask puts the question. Nothing is locked here, so a held opening holds nobody
// else; the caller can be killed.
func (f *fs) ask(n *node, cancel <-chan struct{}, pid uint32, write bool) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	answer := make(chan error, 1)
	q := Question{Path: f.path(n), Dir: n.dir != nil, Write: write, Pid: pid}
	go func() {
		defer func() {
			if recover() != nil {
				f.panicked()
				answer <- unix.EIO
			}
		}()
		answer <- f.opt.Asker.Ask(ctx, q)
	}()
	select {
	case err := <-answer:
		if err != nil {
			f.note(Refused, n, pid)
			return unix.EACCES
		}
		return nil
	case <-cancel:
		return unix.EINTR
	case <-f.closed:
		return unix.EIO
	}
}

// path returns the view's path of n, for hooks only.
func (f *fs) path(n *node) string {
	f.tree.RLock()
	defer f.tree.RUnlock()
	return pathLocked(n)
}

func (f *fs) pathOf(parent *node, name string) string {
	if p := f.path(parent); p != "" {
		return p + "/" + name
	}
	return name
}

func pathLocked(n *node) string {
	size := 0
	for at := n; len(at.links) > 0; at = at.links[0].parent {
		size += len(at.links[0].name) + 1
	}
	if size == 0 {
		return ""
	}
	b := make([]byte, size)
	end := size
	for at := n; len(at.links) > 0; at = at.links[0].parent {
		name := at.links[0].name
		end -= len(name)
		copy(b[end:], name)
		end--
		if end >= 0 {
			b[end] = '/'
		}
	}
	return string(b[1:])
}
