package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/renameio/v2"
)

// Store keeps the records of one state root. Its methods are safe for concurrent use
// on different sessions; two writers of one session are kept apart by the caller.
type Store struct {
	*Root

	mu sync.Mutex // guards the fields below
	// torn are the sessions whose record could not be read. Their file is evidence
	// and is never written over.
	torn map[ID]bool
}

// OpenStore opens the state root at path (see OpenRoot) and removes what an earlier
// daemon left half made.
func OpenStore(path string) (*Store, error) {
	root, err := OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return newStore(root)
}

func newStore(root *Root) (*Store, error) {
	s := &Store{Root: root, torn: map[ID]bool{}}
	if err := s.clearNew(); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) dir(id ID) string { return filepath.Join(s.records(), string(id)) }

// Create makes the session's record directory under a name that is none, with the
// record and the environment in it, and renames it into place. It is on disk for good
// after Sync, which may run beside the rest of a start.
func (s *Store) Create(r Record, env []string) error {
	if !isID(string(r.ID)) || !r.State.Known() {
		return fmt.Errorf("creating a record: id %q, state %q: %w", r.ID, r.State, ErrRefused)
	}
	tmp := filepath.Join(s.records(), making+string(r.ID))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return fmt.Errorf("creating session %s: %w", r.ID, err)
	}
	err := s.fill(tmp, r, env)
	if err == nil {
		err = os.Rename(tmp, s.dir(r.ID))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("creating session %s: %w", r.ID, err), os.RemoveAll(tmp))
	}
	return nil
}

func (s *Store) fill(dir string, r Record, env []string) error {
	b, err := encodeRecord(r)
	if err != nil {
		return err
	}
	return errors.Join(writeNew(filepath.Join(dir, envFile), encodeEnv(env)), writeNew(filepath.Join(dir, recordFile), b))
}

// writeNew writes a file in a directory that nobody knows yet.
func writeNew(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// Sync puts a session that was created on disk for good.
func (s *Store) Sync(id ID) error {
	dir := s.dir(id)
	for _, path := range []string{filepath.Join(dir, envFile), filepath.Join(dir, recordFile), dir, s.records()} {
		if err := syncPath(path); err != nil {
			return fmt.Errorf("creating session %s: %w", id, err)
		}
	}
	return nil
}

// Save writes the record anew: a temporary file, synced, renamed, the directory
// synced. A torn record is not written over.
func (s *Store) Save(r Record) error {
	if err := s.intact(r.ID); err != nil {
		return err
	}
	if err := writeRecord(s.dir(r.ID), r); err != nil {
		return fmt.Errorf("saving session %s: %w", r.ID, err)
	}
	return nil
}

// Replace is Save without the syncs, for the caller to make up for by Sync: what another
// process reads is whole at every moment.
func (s *Store) Replace(r Record) error {
	if err := s.intact(r.ID); err != nil {
		return err
	}
	b, err := encodeRecord(r)
	if err != nil {
		return err
	}
	name := filepath.Join(s.dir(r.ID), recordFile)
	tmp := name + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("saving session %s: %w", r.ID, err)
	}
	if err := os.Rename(tmp, name); err != nil {
		return fmt.Errorf("saving session %s: %w", r.ID, err)
	}
	return nil
}

// intact refuses to write over a record that could not be read.
func (s *Store) intact(id ID) error {
	if s.Torn(id) {
		return fmt.Errorf("saving session %s: %w: its record is torn and kept as it is", id, ErrRefused)
	}
	return nil
}

// Torn reports whether the record of id could not be read.
func (s *Store) Torn(id ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.torn[id]
}

func encodeRecord(r Record) ([]byte, error) {
	r.Format = Format
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

func writeRecord(dir string, r Record) error {
	b, err := encodeRecord(r)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, recordFile)
	if err := renameio.WriteFile(name, b, 0o600, renameio.WithStaticPermissions(0o600)); err != nil {
		return err
	}
	return syncPath(dir)
}

// syncPath syncs a file or directory.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Load reads the record of id. A torn one comes back with state Broken and the reason;
// ErrNotFound when there is none.
func (s *Store) Load(id ID) (Record, error) {
	if !isID(string(id)) {
		return Record{}, fmt.Errorf("session %.40q: %w", string(id), ErrNotFound)
	}
	if _, err := os.Lstat(s.dir(id)); errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("session %s: %w", id, ErrNotFound)
	}
	b, err := readOwn(filepath.Join(s.dir(id), recordFile))
	var r Record
	if err == nil {
		r, err = decodeRecord(b, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.torn, id)
		return r, nil
	}
	s.torn[id] = true
	return s.broken(id, err), nil
}

// broken is what is told of a session whose record is torn. Its uid is the directory
// owner's when that can be told, else root's (nobody but root sees it).
func (s *Store) broken(id ID, err error) Record {
	return Record{
		Format: Format, ID: id, UID: s.Owner(id), State: Broken,
		Reason: fmt.Sprintf("its record cannot be read: %v; nothing of it was touched; `sbxd rm --discard %s` removes it", err, id),
	}
}

// Owner finds the uid whose directory holds id's data, without its record; 0 when there
// is none, and our own in a user's layout.
func (s *Store) Owner(id ID) int {
	if !s.system {
		return s.uid
	}
	hits, _ := filepath.Glob(filepath.Join(s.path, "[0-9]*", sessionsIn, string(id)))
	for _, h := range hits {
		var uid int
		rel, _ := filepath.Rel(s.path, h)
		if _, err := fmt.Sscanf(rel, "%d/", &uid); err == nil {
			return uid
		}
	}
	return 0
}

// All loads every record, sorted by id. Names that are no session's are left alone.
func (s *Store) All() ([]Record, error) {
	entries, err := os.ReadDir(s.records())
	if err != nil {
		return nil, fmt.Errorf("reading the sessions: %w", err)
	}
	var all []Record
	for _, e := range entries {
		if !isID(e.Name()) {
			continue
		}
		r, err := s.Load(ID(e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Retire decides the removal of id in one rename; a crash after it is finished by
// Purge. It returns the retired directory.
func (s *Store) Retire(id ID) (string, error) {
	old := filepath.Join(s.records(), removing+string(id))
	if err := os.Rename(s.dir(id), old); err != nil {
		return "", fmt.Errorf("removing session %s: %w", id, err)
	}
	return old, syncPath(s.records())
}

// Retired lists the ids whose removal was decided and not finished.
func (s *Store) Retired() ([]ID, error) {
	entries, err := os.ReadDir(s.records())
	if err != nil {
		return nil, fmt.Errorf("reading the sessions: %w", err)
	}
	var ids []ID
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), removing); ok && isID(id) {
			ids = append(ids, ID(id))
		}
	}
	return ids, nil
}

// Purge removes the retired record directory of id. In a user's layout the data of the
// session lies in it and has to be removed before, by a worker.
func (s *Store) Purge(id ID) error {
	s.mu.Lock()
	delete(s.torn, id)
	s.mu.Unlock()
	if err := os.RemoveAll(filepath.Join(s.records(), removing+string(id))); err != nil {
		return fmt.Errorf("removing session %s: %w", id, err)
	}
	return syncPath(s.records())
}

// clearNew removes records that were never renamed into place: no process knows them.
func (s *Store) clearNew() error {
	entries, err := os.ReadDir(s.records())
	if err != nil {
		return fmt.Errorf("reading the sessions: %w", err)
	}
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), making); ok && isID(id) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.records(), e.Name())))
		}
	}
	return err
}

// mkdir makes a private directory; one that is there is left as it is.
func mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
