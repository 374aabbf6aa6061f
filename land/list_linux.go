package land

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sbxd/sbxd/internal/safefs"
)

// What is kept to be undone. The newest landing of each project always is, and so
// is what needs attention.
const (
	KeepCount = 20
	KeepAge   = 30 * 24 * time.Hour
	KeepBytes = 2 << 30
)

// List returns the landings of a user, newest first, with undos among them. A
// record that cannot be read is left out and told in the error, beside the others.
func List(lands string) ([]Record, error) {
	s := store{lands}
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var out []Record
	var errs []error
	for _, id := range ids {
		r, err := s.record(id)
		switch {
		case err != nil:
			errs = append(errs, err)
		case r != nil:
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.ID, b.ID))
	})
	return out, errors.Join(errs...)
}

// Steps returns what a landing did, as it was planned.
func Steps(lands, id string) ([]Op, error) {
	ops, err := store{lands}.journal(id)
	if err == nil && ops == nil {
		err = fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return ops, err
}

// Prune removes landings that are too old, too many or too large to be kept. A
// project that is being landed on is left for the next time.
func Prune(ctx context.Context, lands string) error {
	s := store{lands}
	errs := []error{s.sweep()}
	all, err := List(lands)
	errs = append(errs, err)
	for _, r := range expired(all, time.Now()) {
		unlock, err := lockProject(ctx, s, r.Root, 0)
		if errors.Is(err, ErrBusy) {
			continue
		}
		if err == nil {
			err = forgetLanding(s, r)
			unlock()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pruneProject is Prune for one project, whose lock the caller holds.
func pruneProject(s store, root Root) error {
	all, err := List(s.dir)
	errs := []error{err}
	for _, r := range expired(all, time.Now()) {
		if r.Root.Same(root) {
			errs = append(errs, forgetLanding(s, r))
		}
	}
	return errors.Join(errs...)
}

// expired picks from landings, newest first, those that are not kept.
func expired(all []Record, now time.Time) []*Record {
	var out []*Record
	var bytes int64
	newest := map[[2]uint64]bool{}
	count := 0
	for i := range all {
		r := &all[i]
		if !r.Done || r.State != StateLanded {
			continue
		}
		key := [2]uint64{r.Root.Dev, r.Root.Ino}
		first := !newest[key]
		newest[key] = true
		count++
		bytes += r.Bytes
		if !first && (count > KeepCount || now.Sub(r.Time) > KeepAge || bytes > KeepBytes) {
			out = append(out, r)
		}
	}
	return out
}

// forgetLanding removes a landing and what it took out.
func forgetLanding(s store, r *Record) error {
	if r.Inside {
		t, err := openTree(r.Project)
		if err == nil {
			defer t.close()
			if t.id.Same(r.Root) {
				err = removeInside(t, r.ID)
			}
		}
		if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, safefs.ErrMount) {
			return fmt.Errorf("remove landing %s: %w", r.ID, err)
		}
	}
	if err := s.remove(r.ID); err != nil {
		return fmt.Errorf("remove landing %s: %w", r.ID, err)
	}
	return nil
}
