package sweep

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/session"
)

// Names of the state root that this package reads.
const (
	sessionsDir = "sessions"
	landsDir    = "lands"
	pinsDir     = "pins" // sets of placeholders that sessions of a uid share
	recordsDir  = "root" // of the system's layout
	recordName  = "session.json"
	upperDir    = "project/upper"
)

// directories lists the directories of sessions below the state root.
func (s *Seen) directories(root *safefs.Dir, k Known) {
	parents := []string{""}
	if k.System {
		parents = nil
		entries, err := root.ReadDir("")
		if err != nil {
			s.fault(k.Root, err)
		}
		for _, e := range entries {
			if _, err := strconv.ParseUint(e.Name, 10, 32); err == nil && e.IsDir() {
				parents = append(parents, e.Name+"/")
			}
		}
	}
	if k.System { // last: what a record decided about goes before the record
		parents = append(parents, recordsDir+"/")
	}
	known := map[session.ID]bool{}
	for _, r := range k.Records {
		known[r.ID] = r.State != session.Broken
	}
	for _, p := range parents {
		s.base(root, k, p+sessionsDir, known, isSession)
		s.base(root, k, p+landsDir, known, isUnfinished)
		s.base(root, k, p+pinsDir, known, isPins)
	}
	s.base(root, k, "", known, isProbe)
}

// What is listed of a directory of sessions, of one of landings, which land itself
// finishes or takes back, of one of placeholders, and of the state root.

func isSession(name string) bool {
	id, _ := split(name)
	return id != ""
}

func isUnfinished(name string) bool {
	_, prefix := split(name)
	return prefix != ""
}

func isPins(name string) bool {
	name, unfinished := strings.CutPrefix(name, newPrefix)
	name, _ = strings.CutPrefix(name, oldPrefix)
	if unfinished {
		name, _, _ = strings.Cut(name, "-") // behind it stands who made it
	}
	return len(name) == pinsName && strings.Trim(name, "0123456789abcdef") == ""
}

// pinsName is the length of the name of a set of placeholders: 128 bits in hex.
const pinsName = 32

func isProbe(name string) bool {
	number, ok := strings.CutPrefix(name, probePrefix)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

func (s *Seen) base(root *safefs.Dir, k Known, name string, known map[session.ID]bool, listed func(string) bool) {
	b, err := root.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.fault(k.Root+"/"+name, err)
		return
	}
	defer func() { _ = b.Close() }()
	b.OneMount() // what a user mounts below may not answer
	base := Base{Path: strings.TrimSuffix(k.Root+"/"+name, "/")}
	if st, err := b.Lstat(""); err == nil {
		base.ID = session.DirID{Dev: st.Dev, Ino: st.Ino}
	}
	s.locate(&base)
	s.Bases = append(s.Bases, base)
	entries, err := b.ReadDir("")
	if err != nil {
		s.fault(base.Path, err)
	}
	for _, e := range entries {
		id, _ := split(e.Name)
		if !listed(e.Name) || !e.IsDir() {
			continue
		}
		d, err := describe(b, e.Name, id == "" || known[id] && e.Name == string(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			s.fault(base.Path+"/"+e.Name, err)
			continue
		}
		d.Base = base.Path
		s.Dirs = append(s.Dirs, d)
	}
}

// describe looks at one directory; of a session that is known, or of none, no further
// than that.
func describe(b *safefs.Dir, name string, known bool) (Dir, error) {
	st, err := b.Lstat(name)
	if err != nil {
		return Dir{}, err
	}
	d := Dir{Name: name, UID: int(st.UID), Changed: st.Ctime.Time()}
	if known {
		d.Record = true // or of no session
		return d, nil
	}
	_, err = b.Lstat(name + "/" + recordName)
	d.Record = !errors.Is(err, fs.ErrNotExist)
	d.Work = hasWork(b, name)
	return d, nil
}

// hasWork reports whether a session's upper directory holds something, or cannot be
// read.
func hasWork(b *safefs.Dir, name string) bool {
	errFull := errors.New("not empty")
	err := b.Each(name+"/"+upperDir, func(safefs.Entry) error { return errFull })
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// split takes the name of a session's directory apart; id is empty for any other name.
func split(name string) (id session.ID, prefix string) {
	for _, p := range []string{"", newPrefix, oldPrefix} {
		rest, ok := strings.CutPrefix(name, p)
		if id, err := session.ParseID(rest); ok && err == nil {
			return id, p
		}
	}
	return "", ""
}

// locate finds out which file system a base lies on, and where: the last line of our
// table whose point is the base or above it.
func (s *Seen) locate(b *Base) {
	best := -1
	for _, m := range s.Namespaces[0].Mounts {
		below, ok := rel(m.Point, b.Path)
		if m.Point == b.Path {
			below, ok = "", true
		}
		if !ok || len(m.Point) < best {
			continue
		}
		best = len(m.Point)
		b.Major, b.Minor = m.Major, m.Minor
		b.FSPath = strings.TrimSuffix(strings.TrimSuffix(m.Root, "/")+"/"+below, "/")
	}
}
