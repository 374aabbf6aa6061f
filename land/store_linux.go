package land

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
	"golang.org/x/sys/unix"
)

// What a landing's directory holds, below <state>/lands/<id>/ (DESIGN: the state
// root). A directory is made as new-<id> and renamed when its intent is in it, so
// one without an intent is nobody's.
const (
	intentFile  = "intent.json" // before anything is staged: whose it is, and where
	journalFile = "journal"     // all is staged and durable: the steps (PREPARED)
	recordFile  = "record.json" // the landing is done (COMMITTED), or stays half undone
	objectsDir  = "objects"     // the stage, and later what undo brings back

	makingPrefix   = "new-"
	removingPrefix = "old-"
)

// intent is written first: what a recovery needs before there is a journal.
type intent struct {
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"`
	UID     int       `json:"uid"`
	Who     string    `json:"who,omitempty"`
	Project string    `json:"project"`
	Root    Root      `json:"root"`
	Base    string    `json:"base,omitempty"` // directory of the session's base
	// Inside says that the objects lie in the project's own .sbxd, since no rename
	// reaches it from the state root.
	Inside    bool   `json:"inside,omitempty"`
	Changeset string `json:"changeset,omitempty"`
	Undoes    string `json:"undoes,omitempty"` // the landing that this one takes back
}

// States of a record.
const (
	StateLanded    = "landed"
	StateAttention = "attention" // taken back, but for paths that the host changed meanwhile
)

// Record is what is kept of a landing.
type Record struct {
	intent
	State    string   `json:"state"`
	Counts   Counts   `json:"counts"`
	Bytes    int64    `json:"bytes"` // of the objects that undo brings back
	UndoneBy string   `json:"undone_by,omitempty"`
	Left     []string `json:"left,omitempty"` // paths that kept the host's bytes
	// Done says that all that follows a landing was done too: the base advanced,
	// the landing that this one takes back marked.
	Done bool `json:"done"`
}

// Objects returns the directory that holds what the landing took out.
func (r *Record) Objects(lands string) string { return objectsPath(lands, &r.intent) }

func objectsPath(lands string, in *intent) string {
	if in.Inside {
		return filepath.Join(in.Project, stateDir, in.ID)
	}
	return filepath.Join(lands, in.ID, objectsDir)
}

// store is the directory of one user's landings.
type store struct{ dir string }

func (s store) path(id, name string) string { return filepath.Join(s.dir, id, name) }

// create makes the directory of a new landing.
func (s store) create(in *intent) error {
	making := filepath.Join(s.dir, makingPrefix+in.ID)
	if err := fault.Hit("land.intent.mkdir"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(making, objectsDir), 0o700); err != nil {
		return err
	}
	if err := s.writeJSON(making, intentFile, "land.intent", in); err != nil {
		return err
	}
	if err := fault.Hit("land.intent.publish"); err != nil {
		return err
	}
	if err := os.Rename(making, filepath.Join(s.dir, in.ID)); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func (s store) writeJSON(dir, name, op string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(dir, name, op, append(b, '\n'))
}

func (s store) readJSON(id, name string, v any) error {
	b, err := os.ReadFile(s.path(id, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: %w", s.path(id, name), err)
	}
	return nil
}

// record reads the record of a landing; nil if it has none.
func (s store) record(id string) (*Record, error) {
	r := &Record{}
	err := s.readJSON(id, recordFile, r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return r, err
}

// ids lists the landings, finished or not.
func (s store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if _, err := session.ParseID(e.Name()); err == nil && e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// remove takes a landing off the disk: its name goes first, so that a crash
// leaves nothing that looks like one.
func (s store) remove(id string) error {
	if err := fault.Hit("land.store.remove"); err != nil {
		return err
	}
	old := filepath.Join(s.dir, removingPrefix+id)
	if err := os.Rename(filepath.Join(s.dir, id), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fault.Hit("land.store.erase"); err != nil {
		return err
	}
	return removeTree(s.dir, removingPrefix+id)
}

// removeTree removes dir/name, whatever modes its directories have.
func removeTree(dir, name string) error {
	d, err := safefs.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.RemoveAll(name)
}

// staleAfter is when a directory that was being made or removed belongs to nobody
// any more: a landing makes its intent within moments.
const staleAfter = time.Hour

// sweep removes what crashes left of directories being made or removed.
func (s store) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		making, removing := strings.HasPrefix(e.Name(), makingPrefix), strings.HasPrefix(e.Name(), removingPrefix)
		tmp := strings.HasPrefix(e.Name(), tmpPrefix)
		info, err := e.Info()
		if err != nil || (!making && !removing && !tmp) {
			continue
		}
		if removing || time.Since(info.ModTime()) > staleAfter {
			errs = append(errs, removeTree(s.dir, e.Name()))
		}
	}
	return errors.Join(errs...)
}

// lock takes the one lock of a project, by the identity of its directory.
// While somebody else has it, wait is called before each try.
func (s store) lock(root Root, wait func() error) (func(), error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock project: %w", err)
	}
	name := filepath.Join(s.dir, fmt.Sprintf("lock-%x-%x", root.Dev, root.Ino))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock project: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock project: %w", err)
		}
		if err := wait(); err != nil {
			f.Close()
			return nil, err
		}
	}
}

// unfinished lists the landings on a project that a crash interrupted.
func (s store) unfinished(root Root) ([]string, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, id := range ids {
		r, err := s.record(id)
		if err == nil && r != nil && r.Done {
			continue
		}
		var in intent
		if s.readJSON(id, intentFile, &in) != nil || !in.Root.Same(root) {
			continue // not ours, or damaged: List says so
		}
		if err != nil {
			return nil, err // done or not: only a person can tell
		}
		out = append(out, id)
	}
	slices.Sort(out)
	return out, nil
}
