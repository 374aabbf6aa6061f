package land

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

const (
	// maxTries is how often a session that writes meanwhile is read again.
	maxTries = 5
	// tick is longer than the kernel's coarse clock stands still (10 ms at 100 Hz):
	// within it a write may leave a file's times as they were.
	tick = 20 * time.Millisecond
)

// scanner reads what a session changed.
type scanner struct {
	ctx   context.Context
	opt   *Options
	tree  *tree
	base  *Manifest
	upper *safefs.Dir
	stage *stage // where the bytes are copied; nil: they are only read
	// learned are entries of the base whose bytes were read.
	learned []Node
}

// scan reads the upper until it held still while it was read.
func (s *scanner) scan() (*Changeset, error) {
	resume, err := s.pause()
	if err != nil {
		return nil, err
	}
	defer resume()
	for try := 1; ; try++ {
		cs, still, err := s.once()
		if err != nil && !errors.Is(err, errMoving) {
			return nil, err
		}
		if still || (s.stage == nil && err == nil) {
			return cs, nil
		}
		if try == maxTries {
			return nil, fmt.Errorf("%w: the session is writing to its files; pause or stop it, or try again", ErrBusy)
		}
		select {
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		case <-time.After(tick):
		}
	}
}

func (s *scanner) pause() (func(), error) {
	if s.opt.Pause == nil {
		return func() {}, nil
	}
	resume, err := s.opt.Pause()
	if err != nil {
		return nil, fmt.Errorf("pause session: %w", err)
	}
	return resume, nil
}

// once reads the upper one time, and reports whether it held still.
func (s *scanner) once() (*Changeset, bool, error) {
	before, err := s.print()
	if err != nil {
		return nil, false, err
	}
	cs, err := s.decode()
	if err != nil {
		return nil, false, err
	}
	racy, err := s.readAll(cs)
	if err != nil {
		return nil, false, err
	}
	for _, i := range racy {
		d, err := s.digest(&cs.Items[i])
		if err != nil {
			return nil, false, err
		}
		if d != cs.Items[i].Digest {
			return cs, false, nil
		}
	}
	after, err := s.print()
	return cs, err == nil && before == after, err
}

// print is a digest of the names and marks of the whole upper.
func (s *scanner) print() (Digest, error) {
	sum := sha256.New()
	st, err := s.upper.Lstat("")
	if err != nil {
		return Digest{}, err
	}
	w := walker{ctx: s.ctx, dev: st.Dev, denied: true, visit: func(_ *safefs.Dir, _ string, n *Node) error {
		e := encoder{}
		e.node(n)
		sum.Write(e.b)
		return nil
	}}
	if err = w.below(s.upper, "", "", 0); err != nil {
		err = s.moved(err)
	}
	return Digest(sum.Sum(nil)), err
}

// decode turns the upper into items.
func (s *scanner) decode() (*Changeset, error) {
	hidden, err := s.opt.hidden()
	if err != nil {
		return nil, err
	}
	opt := overlay.Options{Masked: s.opt.masked(), Hidden: hidden, Placeholders: s.opt.Placeholders, Hints: s.opt.Hints}
	view, done := s.view()
	defer done()
	set, err := overlay.Changes(s.ctx, s.upper, view, opt)
	if errors.Is(err, overlay.ErrUnsupportedUpper) {
		return nil, &RefusedError{What: "the session's upper directory", Why: err.Error(), Next: "take the files out with cp"}
	}
	if err != nil {
		return nil, s.moved(err)
	}
	sv := newSieve(s.opt.Masked)
	for i := range set.Changes {
		if s.opt.Base == "" {
			sv.items = append(sv.items, Item{Change: set.Changes[i]})
			continue
		}
		sv.add(set.Changes[i])
	}
	for _, m := range set.Masked {
		if !ours(m) {
			sv.hold(m, HeldMasked)
		}
	}
	for _, m := range set.Forged {
		sv.held = append(sv.held, Held{Path: m.Path, Reason: HeldForged, Detail: m.What + " " + m.Name, Count: 1})
	}
	return &Changeset{Items: sv.items, Held: sv.held, Opaque: set.Opaque}, nil
}

// view is the base to compare with: the recorded one, or the tree as it is now.
func (s *scanner) view() (overlay.Base, func()) {
	if s.opt.Base == "" {
		live := overlay.NewLive(s.tree.dir)
		return live, func() { _ = live.Close() }
	}
	v := newBaseView(s.base, s.tree)
	return v, func() {
		v.cursor.close()
		s.learned = append(s.learned, v.learned...)
	}
}

// readAll reads, and copies where there is a stage, the bytes of each file, several
// at once. It returns the items that were written so shortly before that their
// times cannot tell of a further write.
func (s *scanner) readAll(cs *Changeset) ([]int, error) {
	linked := map[string]int{} // first path of a file with several: its item
	for i := range cs.Items {
		if it := &cs.Items[i]; it.Nlink > 1 && it.Link == "" {
			linked[it.Path] = i
		}
	}
	racy := make([]bool, len(cs.Items))
	started := Clock()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range cs.Items {
		it := &cs.Items[i]
		if _, again := linked[it.Link]; again || it.Op == overlay.Delete || it.Type != overlay.File {
			continue
		}
		g.Go(func() error {
			st, err := s.read(it, i+1)
			if err != nil {
				return fmt.Errorf("read %s of the session: %w", Quote(it.Path), err)
			}
			racy[i] = near(st.Ctime, started)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []int
	for i := range cs.Items {
		it := &cs.Items[i]
		if j, again := linked[it.Link]; again && it.Op != overlay.Delete {
			first := &cs.Items[j]
			it.Digest, it.copied, it.Size, it.MTime = first.Digest, first.copied, first.Size, first.MTime
		}
		if racy[i] {
			out = append(out, i)
		}
	}
	return out, nil
}

// near reports whether a is not at least one tick before b.
func near(a, b safefs.Time) bool { return b.Time().Sub(a.Time()) < tick }

// read reads one file of the upper into its copy.
func (s *scanner) read(it *Item, number int) (safefs.Stat, error) {
	f, st, err := openFile(s.upper, it.Path)
	if err != nil {
		return st, s.moved(err)
	}
	defer f.Close()
	it.Size, it.MTime = st.Size, st.Mtime
	if s.stage == nil || (it.Op == overlay.Mode && it.Nlink == 1 && !it.Split) {
		it.copied = 0
		it.Digest, err = pour(s.ctx, nil, f, st)
		return st, err
	}
	it.copied = number
	it.Digest, err = s.stage.copy(s.ctx, it, f, st)
	return st, err
}

// moved turns what an agent causes by moving files about into errMoving.
func (s *scanner) moved(err error) error {
	switch {
	case gone(err):
		return errMoving
	case errors.Is(err, fs.ErrPermission):
		return &RefusedError{What: "something that the session made unreadable", Why: err.Error(), Next: "chmod it inside the session", Err: overlay.ErrNoAccess}
	}
	return err
}

func (s *scanner) digest(it *Item) (Digest, error) {
	f, st, err := openFile(s.upper, it.Path)
	if err != nil {
		return Digest{}, s.moved(err)
	}
	defer f.Close()
	return pour(s.ctx, nil, f, st)
}
