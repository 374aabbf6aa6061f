package overlay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sbxd/sbxd/internal/safefs"
)

// What one search for renames may cost. Beyond it changes have no hint.
const (
	maxHintBytes = 256 << 20 // read of the upper: about a second
	maxHintTries = 8         // deleted files compared with one added file
	maxHintSize  = 1000      // deleted files of one size that are considered
)

// hint sets Hint on added files whose bytes are those of a deleted one: in a user
// namespace the kernel records no origin, so a rename is never certain. Equal
// names and equal times are tried first, since mv(1) keeps both.
func hint(ctx context.Context, upper *safefs.Dir, base Base, changes []Change) error {
	gone := map[int64][]*Change{}
	for i := range changes {
		if c := &changes[i]; c.Op == Delete && c.Type == File && c.Size > 0 && len(gone[c.Size]) < maxHintSize {
			gone[c.Size] = append(gone[c.Size], c)
		}
	}
	left := int64(maxHintBytes)
	for i := range changes {
		c := &changes[i]
		if c.Op != Add || c.Type != File || len(gone[c.Size]) == 0 {
			continue
		}
		for n, j := range byLikeness(*c, gone[c.Size]) {
			if n == maxHintTries || left < c.Size {
				break
			}
			left -= c.Size
			same, err := sameAs(ctx, upper, base, c.Path, gone[c.Size][j].Path)
			if err != nil {
				return err
			}
			if same {
				c.Hint = gone[c.Size][j].Path
				gone[c.Size] = append(gone[c.Size][:j:j], gone[c.Size][j+1:]...)
				break
			}
		}
	}
	return nil
}

// byLikeness returns the indexes of the first candidates, likeliest first.
func byLikeness(c Change, candidates []*Change) []int {
	var best, rest []int
	_, name := split(c.Path)
	for i, d := range candidates {
		_, n := split(d.Path)
		if n == name || d.MTime == c.MTime {
			best = append(best, i)
		} else if len(rest) < maxHintTries {
			rest = append(rest, i)
		}
		if len(best) == maxHintTries {
			break
		}
	}
	return append(best, rest...)
}

func sameAs(ctx context.Context, upper *safefs.Dir, base Base, path, gone string) (bool, error) {
	f, err := openRegular(upper, path)
	if err != nil {
		return false, ctx.Err() // a hint is not worth an error
	}
	defer func() { _ = f.Close() }()
	same, err := base.SameBytes(ctx, gone, f)
	if err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("compare %q with base %q: %w", path, gone, err)
	}
	return same && err == nil, ctx.Err()
}
