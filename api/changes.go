package api

import "time"

// Change is one entry of a session's changeset.
type Change struct {
	// Path is relative to the project (or HOME, for a diff of it). A name that is not
	// UTF-8 has its bytes in PathB64, and Path is only to be shown.
	Path    string `json:"path"`
	PathB64 []byte `json:"path_b64,omitempty"`
	Op      string `json:"op,omitempty"`   // add, modify, delete, mode, rename; empty where only Note matters
	Type    string `json:"type,omitempty"` // file, dir, symlink, fifo, socket, device
	Mode    string `json:"mode,omitempty"`
	OldMode string `json:"old_mode,omitempty"`
	Size    int64  `json:"size"`
	Target  string `json:"target,omitempty"` // of a symlink
	From    string `json:"from,omitempty"`   // the old path of a rename
	Note    string `json:"note,omitempty"`   // why it does not land: ignored, socket, already there, …
}

// Finding is something that a person should look at before a landing: a gate, a
// conflict, a forged mark, a notice. ID is stable for the same finding.
type Finding struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // block, confirm (both keep a landing back), conflict, forged, notice
	Path string `json:"path,omitempty"`
	Rule string `json:"rule"` // which rule bit
	What string `json:"what"`
}

// Diff is what a session changed (GET /v1/sessions/{id}/diff).
type Diff struct {
	Session string `json:"session"`
	// ID names exactly this changeset; land --expect takes it. Empty for HOME's.
	ID       string    `json:"id,omitempty"`
	Changes  []Change  `json:"changes"`
	Dropped  []Change  `json:"dropped,omitempty"` // listed, never landed
	Findings []Finding `json:"findings,omitempty"`
	Text     string    `json:"text,omitempty"` // unified diff; only when asked for
}

// LandRequest lands a session's changeset (POST /v1/sessions/{id}/land).
type LandRequest struct {
	Expect string `json:"expect,omitempty"` // the changeset id that was reviewed
	DryRun bool   `json:"dry_run,omitempty"`
	Yes    bool   `json:"yes,omitempty"` // the caller agreed to every finding of kind confirm
	// Allow lists findings by id that were agreed to one by one; it reaches gates of
	// kind block, which Yes does not.
	Allow []string `json:"allow,omitempty"`
}

// Landing is one landing or one undo of a landing; both are kept the same way.
type Landing struct {
	ID        string    `json:"id"`
	Session   string    `json:"session,omitempty"`
	Project   string    `json:"project"`
	Changeset string    `json:"changeset,omitempty"`
	State     string    `json:"state"` // planned (a dry run), landed, undone, rolled-back, attention
	Time      time.Time `json:"time"`
	Undoes    string    `json:"undoes,omitempty"`    // the landing that this one undid
	UndoneBy  string    `json:"undone_by,omitempty"` // the landing that undid this one
	Counts    Counts    `json:"counts"`
	Changes   []Change  `json:"changes,omitempty"` // not in a list of landings
	Dropped   []Change  `json:"dropped,omitempty"` // of a plan: what does not land
	Findings  []Finding `json:"findings,omitempty"`
	Left      []string  `json:"left,omitempty"` // paths that kept the host's bytes, and where ours are
}

// Counts are the paths of a landing by what happened to them.
type Counts struct {
	Added    int `json:"added"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"`
	Mode     int `json:"mode"`
}

// All is the number of paths.
func (c Counts) All() int { return c.Added + c.Modified + c.Deleted + c.Mode }

// UndoRequest undoes a landing (POST /v1/lands/{id}/undo).
type UndoRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
	Yes    bool `json:"yes,omitempty"`
}
