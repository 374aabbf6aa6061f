package session

import (
	"path/filepath"
	"strconv"
)

// Names inside a session's directory and a state root.
const (
	recordFile = "session.json"
	eventsFile = "events.jsonl"
	envFile    = "env"
	sessionsIn = "sessions"
	landsIn    = "lands"

	making   = "new-" // a record being made: worth nothing yet
	removing = "old-" // a record whose removal was decided: worth nothing any more
)

// DataDirs are the directories of a session that belong to its uid, in the order in
// which they are made, below its data directory.
var DataDirs = []string{
	"home", "home/upper", "home/work", "home/pins",
	"project", "project/upper", "project/work", "project/pins", "project/base",
	"log",
}

// records is where the trusted half of every session lies.
func (r *Root) records() string {
	if r.system {
		return filepath.Join(r.path, "root", sessionsIn)
	}
	return filepath.Join(r.path, sessionsIn)
}

// Of returns the directory of uid's own data: the root itself for a user's daemon.
func (r *Root) Of(uid int) string {
	if r.system {
		return filepath.Join(r.path, strconv.Itoa(uid))
	}
	return r.path
}

// DataDir returns the directory that holds the views and the log of uid's session id.
func (r *Root) DataDir(uid int, id ID) string {
	return filepath.Join(r.Of(uid), sessionsIn, string(id))
}

// LandsDir returns the directory that holds the landings of uid.
func (r *Root) LandsDir(uid int) string { return filepath.Join(r.Of(uid), landsIn) }

func (r *Root) fixedDirs() []string {
	if r.system {
		return []string{filepath.Join(r.path, "root"), r.records()}
	}
	return []string{r.records(), r.LandsDir(r.uid)}
}
