package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Names inside a session's directory and a state root.
const (
	agentsIn   = "agents"
	agentDir   = "agent" // of one session
	recordFile = "session.json"
	eventsFile = "events.jsonl"
	envFile    = "env"
	trustFile  = "trust.json"
	sessionsIn = "sessions"
	landsIn    = "lands"

	making   = "new-" // a record being made: worth nothing yet
	removing = "old-" // a record whose removal was decided: worth nothing any more
)

// EndedFile is where a shim leaves, in the session's data directory, why it has ended the
// session by itself: one line of at most MaxMessage bytes.
const EndedFile = "ended"

// DataDirs are the directories of a session that belong to its uid, in the order in
// which they are made, below its data directory.
var DataDirs = []string{
	"home", "home/upper", "home/work",
	"project", "project/upper", "project/work", "project/base",
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

// TrustFile returns the file that names the projects whose own files count for uid.
func (r *Root) TrustFile(uid int) string { return filepath.Join(r.Of(uid), trustFile) }

// LandsDir returns the directory that holds the landings of uid.
func (r *Root) LandsDir(uid int) string { return filepath.Join(r.Of(uid), landsIn) }

func (r *Root) fixedDirs() []string {
	if r.system {
		return []string{filepath.Join(r.path, "root"), r.records()}
	}
	return []string{r.records(), r.LandsDir(r.uid)}
}

// MakeOwner makes the directory that holds the data of a uid, in the system's layout;
// in a user's it is the root itself. made reports that it was not there before.
func (r *Root) MakeOwner(uid, gid int) (made bool, err error) {
	if !r.system {
		return false, nil
	}
	dir := r.Of(uid)
	if made, err = r.makeOwned(dir, uid, gid); err != nil {
		return made, fmt.Errorf("making the directory of uid %d: %w", uid, err)
	}
	f, err := openOwn(dir, uid, 0o700)
	if err != nil {
		return made, fmt.Errorf("opening the directory of uid %d: %w", uid, err)
	}
	return made, f.Close()
}

// makeOwned makes dir with its owner in one step, so that neither another start nor the
// next daemon after a crash finds it root's.
func (r *Root) makeOwned(dir string, uid, gid int) (made bool, err error) {
	if _, err := os.Lstat(dir); err == nil {
		return false, nil
	}
	tmp, err := os.MkdirTemp(r.path, making)
	if err != nil {
		return false, err
	}
	if err = os.Lchown(tmp, uid, gid); err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		return true, nil
	}
	_ = os.Remove(tmp)
	if errors.Is(err, fs.ErrExist) {
		return false, nil // somebody was faster
	}
	return false, err
}

// RetiredData returns where the data of uid's session id lies once Retire has decided
// its removal: in a user's layout it lies beside the record and moved with it.
func (r *Root) RetiredData(uid int, id ID) string {
	if r.system {
		return r.DataDir(uid, id)
	}
	return filepath.Join(r.records(), removing+string(id))
}

// File returns the path of the record of id.
func (r *Root) File(id ID) string { return filepath.Join(r.records(), string(id), recordFile) }

// AgentDirs returns where an agent's own directories lie: those that last, for one user
// and agent, and those of one session.
func (r *Root) AgentDirs(rec Record) (kept, once string) {
	return filepath.Join(r.Of(rec.UID), agentsIn, rec.Agent), filepath.Join(r.DataDir(rec.UID, rec.ID), agentDir)
}
