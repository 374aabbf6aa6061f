package worker

import (
	"context"

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

func remove(_ context.Context, w session.Work) (any, error) {
	return nil, session.RemoveDir(w.Dir)
}

func archive(_ context.Context, w session.Work) (any, error) {
	return nil, session.ArchiveDir(w.Dir, w.To)
}
