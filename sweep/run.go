package sweep

import (
	"context"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/scratch"
	"github.com/sbxd/sbxd/session"
)

// KnownOf collects what a state root is supposed to hold.
func KnownOf(store *session.Store, runtime string, busy map[session.ID]bool) (Known, error) {
	records, err := store.All()
	if err != nil {
		return Known{}, err
	}
	return Known{Root: store.Path(), System: store.System(), Runtime: runtime, Scratch: scratch.Place, Records: records, Busy: busy}, nil
}

// Run looks, plans, and, unless dry, applies.
func Run(ctx context.Context, k Known, h Host, dry bool) (api.Sweep, error) {
	seen, err := Look(ctx, k)
	if err != nil {
		return api.Sweep{}, err
	}
	p := Make(seen, k)
	out := api.Sweep{DryRun: dry, Items: []api.SweepItem{}}
	var results []Result
	if dry {
		for _, e := range p.Entries {
			results = append(results, Result{Entry: e})
		}
	} else {
		results = Apply(ctx, p, k, h)
	}
	for _, r := range results {
		out.Items = append(out.Items, r.item())
	}
	for _, f := range p.Faults {
		out.Items = append(out.Items, api.SweepItem{Kind: "fault", What: f.What, Action: string(Keep), Reason: f.Why})
	}
	return out, nil
}

func (r Result) item() api.SweepItem {
	i := api.SweepItem{Kind: r.Kind, What: r.What, Action: string(r.Action), Reason: r.Reason, Proof: r.Proof}
	if r.Err != nil {
		i.Error = r.Err.Error()
	}
	return i
}
