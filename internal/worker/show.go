package worker

import (
	"slices"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/land"
)

// show is a changeset as the API has it: what the project has already is listed with
// what does not land, and a notice that wants a yes is a gate.
func show(cs *land.Changeset, id string) api.Diff {
	d := cs.API(id)
	gated(d.Findings)
	if cs.Plan == nil || len(cs.Plan.Already) == 0 {
		return d
	}
	already := map[string]bool{}
	for _, p := range cs.Plan.Already {
		already[p] = true
	}
	changes := []api.Change{}
	for i, c := range d.Changes {
		if already[cs.Items[i].Path] {
			c.Note = "the project has it already"
			d.Dropped = append(d.Dropped, c)
			continue
		}
		changes = append(changes, c)
	}
	d.Changes = changes
	return d
}

// gated makes gates of the notices that want a yes: a link that leaves the project
// leads a program of the host that follows it elsewhere.
func gated(list []api.Finding) {
	for i := range list {
		if list[i].Rule == land.NoteLink {
			list[i].Kind = "confirm"
		}
	}
}

// gates counts the findings that keep a landing back: of kind confirm without a yes, of
// kind block without its own.
func gates(list []api.Finding, req api.LandRequest) int {
	open := 0
	for _, f := range list {
		allowed := slices.Contains(req.Allow, f.ID)
		if f.Kind == "confirm" && !req.Yes && !allowed || f.Kind == "block" && !allowed {
			open++
		}
	}
	return open
}
