package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// undoTimeout is how long taking a failed start back may take, whoever went away.
const undoTimeout = 10 * time.Second

// undoStack takes steps back in reverse.
type undoStack []func(context.Context) error

func (u *undoStack) push(f func(context.Context) error) { *u = append(*u, f) }

// undo takes everything back, even when ctx has ended, and joins what went wrong to
// cause.
func (u undoStack) undo(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for i := len(u) - 1; i >= 0; i-- {
		if err := u[i](ctx); err != nil {
			cause = errors.Join(cause, fmt.Errorf("taking it back: %w", err))
		}
	}
	return cause
}
