package session

import (
	"errors"
	"io/fs"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/masks"
)

// Cred is what a process of a session's owner runs as.
type Cred struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`
}

// Cred returns the session's own.
func (r Record) Cred() Cred { return Cred{UID: r.UID, GID: r.GID, Groups: r.Groups} }

// Operations of a worker, the process with the session's uid that alone touches trees
// of its user. Each takes a Work; what it answers is named beside it.
const (
	WorkPlaces  = "places"  // Places; checks them
	WorkPrepare = "prepare" // []string, warnings; makes the data and the agent's directories
	WorkCapture = "capture" // nothing; captures the base of the project
	WorkDiff    = "diff"    // api.Diff
	WorkLand    = "land"    // api.Landing
	WorkUndo    = "undo"    // api.Landing
	WorkLands   = "lands"   // []api.Landing, newest first
	WorkRecover = "recover" // []api.Landing that were unfinished and now are not
	WorkExecs   = "execs"   // []api.Command, of a session that does not run
	WorkLog     = "log"     // []byte: the output of one of them
	WorkExplain = "explain" // api.Explanation
	WorkTrust   = "trust"   // api.Trusted
	WorkRemove  = "remove"  // nothing; removes a directory of the session's user (RemoveDir)
	WorkArchive = "archive" // nothing; moves one (ArchiveDir)
)

// Work is the input of a worker's operation. Fields that an operation does not need
// are empty.
type Work struct {
	Record Record `json:"record,omitzero"`
	Dir    string `json:"dir,omitempty"`   // the session's data directory
	Lands  string `json:"lands,omitempty"` // of the uid
	To     string `json:"to,omitempty"`    // of archive
	Root   string `json:"root,omitempty"`  // the state root
	Trust  string `json:"trust,omitempty"` // of the uid: which projects' files count (places, trust)
	// Policy is that of Launch: what is masked never lands.
	Policy Policy `json:"policy,omitzero"`

	// Own are the agent's directories (prepare).
	Own []masks.OwnDir `json:"own,omitempty"`
	// Since is land.Clock before the session's first command (capture).
	Since safefs.Time `json:"since,omitzero"`

	Who      string   `json:"who,omitempty"`      // the socket that asked (land, undo)
	Projects []string `json:"projects,omitempty"` // of recover
	Exec     string   `json:"exec,omitempty"`     // of log
	From     int64    `json:"from,omitempty"`     // of log

	Path    string          `json:"path,omitempty"`    // of explain and trust
	Landing string          `json:"landing,omitempty"` // of undo
	Home    bool            `json:"home,omitempty"`    // of diff
	Text    bool            `json:"text,omitempty"`    // of diff
	Land    api.LandRequest `json:"land,omitzero"`
	Undo    api.UndoRequest `json:"undo,omitzero"`
}

// Places is where a session works, as its uid sees it.
type Places struct {
	Project Place `json:"project"`
	Home    Place `json:"home"`

	// What the project's own file says, when it counts; Notes say why it does not.
	Tight      []Source `json:"tight,omitempty"`
	NetworkOff bool     `json:"network_off,omitempty"`
	Notes      []string `json:"notes,omitempty"`
}

// APIError gives err the exit code that its kind has. What is an *api.Error already
// stays as it is.
func APIError(err error) *api.Error {
	var told *api.Error
	if errors.As(err, &told) {
		return told
	}
	code := api.ExitFailed
	for _, k := range []struct {
		err  error
		code int
	}{
		{ErrNotFound, api.ExitNotFound},
		{ErrNoCommand, api.ExitNotFound},
		{ErrExists, api.ExitRefused},
		{ErrBusy, api.ExitBusy},
		{ErrDenied, api.ExitDenied},
		{ErrRefused, api.ExitRefused},
		{ErrGone, api.ExitAttention},
		{fs.ErrPermission, api.ExitDenied},
	} {
		if errors.Is(err, k.err) {
			code = k.code
			break
		}
	}
	if errors.As(err, new(*StateError)) || errors.As(err, new(*StartError)) {
		code = api.ExitRefused
	}
	return &api.Error{Code: code, Message: err.Error()}
}
