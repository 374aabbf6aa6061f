package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
)

func places(_ context.Context, w session.Work) (any, error) {
	p, err := session.Resolve(w)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func trust(_ context.Context, w session.Work) (any, error) { return session.Trust(w) }

func prepare(_ context.Context, w session.Work) (any, error) {
	return session.Prepare(w)
}

// remove removes a session's data directory: by descriptor, never across a mount, and
// with directories of mode 000 in it. One that is gone is no error.
func remove(_ context.Context, w session.Work) (any, error) {
	parent, err := safefs.OpenReal(filepath.Dir(w.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the session's directory: %w", err)
	}
	defer parent.Close()
	if err := parent.RemoveAll(filepath.Base(w.Dir)); err != nil {
		return nil, fmt.Errorf("removing the session's directory %s: %w", w.Dir, err)
	}
	return nil, nil
}
