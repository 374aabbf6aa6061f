package land

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/session"
)

// ManifestFile is the file of a base directory that is there once the base is recorded.
const ManifestFile = "manifest"

const (
	patchPrefix = "patch-"
	knownPrefix = "known-"
	tmpPrefix   = "tmp-"

	// maxPatches is how many patches, and how many lists of digests, a base keeps
	// beside the manifest: each costs a file at every look.
	maxPatches = 16
)

// writeFile puts content at dir/name: whole or not at all, also after a power cut.
// op names its effects for tests.
func writeFile(dir, name, op string, content []byte) error {
	if err := fault.Hit(op + ".write"); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, tmpPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close(), fault.Hit(op+".rename"))
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeManifest(dir string, m *Manifest) error {
	if err := writeFile(dir, ManifestFile, "land.base", m.encode()); err != nil {
		return fmt.Errorf("write base: %w", err)
	}
	return nil
}

// loadBase reads a session's base with all its patches.
func loadBase(dir string) (*Manifest, error) {
	for {
		m, err := loadBaseOnce(dir)
		if errors.Is(err, errCompacted) {
			continue // a landing wrote a new manifest meanwhile
		}
		return m, err
	}
}

var errCompacted = errors.New("patch is gone")

func loadBaseOnce(dir string) (*Manifest, error) {
	names, err := namesOf(dir, patchPrefix)
	if err != nil {
		return nil, fmt.Errorf("read base: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &RefusedError{
			What: "the session's base", Why: "it was not recorded, or not yet", Err: ErrNoBase,
			Next: "without it nobody can tell the host's edits from the session's; try again, or take the files out with cp",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read base: %w", err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("read base in %s: %w", dir, err)
	}
	patches := make([]*patch, 0, len(names))
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errCompacted
		}
		if err != nil {
			return nil, fmt.Errorf("read base: %w", err)
		}
		p, err := decodePatch(b)
		if err != nil {
			return nil, fmt.Errorf("read base in %s: %s: %w", dir, name, err)
		}
		patches = append(patches, p)
	}
	m = m.apply(patches)
	return m, m.know(dir)
}

// know fills in digests that were learned of entries as they are recorded. The
// lists are a cache: one that is damaged is passed over.
func (m *Manifest) know(dir string) error {
	names, err := namesOf(dir, knownPrefix)
	if err != nil {
		return fmt.Errorf("read base: %w", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		p, err := decodePatch(b)
		if err != nil {
			continue
		}
		for i := range p.Here {
			if n := m.find(p.Here[i].Path); n != nil && sameStamp(n, &p.Here[i]) {
				n.Digest = p.Here[i].Digest
			}
		}
	}
	return nil
}

// learn keeps digests of entries of the base, as they are recorded. They can be
// told from edits later, when their times have moved: by a touch, or by a landing
// that was taken back. A fault here costs a false conflict at worst.
func learn(dir string, nodes []Node) {
	if len(nodes) == 0 {
		return
	}
	old, _ := namesOf(dir, knownPrefix)
	if len(old) < maxPatches {
		old = nil
	}
	for _, name := range old { // many short lists become one
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			if p, err := decodePatch(b); err == nil {
				nodes = append(nodes, p.Here...)
			}
		}
	}
	name := fmt.Sprintf("%s%019d-%s", knownPrefix, time.Now().UnixNano(), session.NewID())
	tmp := filepath.Join(dir, tmpPrefix+string(session.NewID()))
	if os.WriteFile(tmp, (&patch{Here: nodes}).encode(), 0o600) != nil || os.Rename(tmp, filepath.Join(dir, name)) != nil {
		_ = os.Remove(tmp)
		return
	}
	for _, name := range old {
		_ = os.Remove(filepath.Join(dir, name))
	}
}

// namesOf lists the files of one kind in a base, oldest first.
func namesOf(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries { // sorted by name, which begins with the time
		if strings.HasPrefix(e.Name(), prefix) {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// patchName names a patch made now. One made under the lock of the project never
// sorts before an earlier one of another boot or clock, since it counts on.
func patchName(last string) string {
	at := time.Now().UnixNano()
	if n := len(patchPrefix) + 19; len(last) >= n {
		var prev int64
		if _, err := fmt.Sscanf(last[len(patchPrefix):n], "%d", &prev); err == nil && prev >= at {
			at = prev + 1
		}
	}
	return fmt.Sprintf("%s%019d-%s", patchPrefix, at, session.NewID())
}

// addPatch advances a base. Many small steps are joined to a new manifest.
func addPatch(dir string, p *patch) error {
	names, err := namesOf(dir, patchPrefix)
	if err != nil {
		return fmt.Errorf("advance base: %w", err)
	}
	known, err := namesOf(dir, knownPrefix)
	if err != nil {
		return fmt.Errorf("advance base: %w", err)
	}
	var last string
	if len(names) > 0 {
		last = names[len(names)-1]
	}
	if err := writeFile(dir, patchName(last), "land.base", p.encode()); err != nil {
		return fmt.Errorf("advance base: %w", err)
	}
	if len(names) < maxPatches && len(known) < maxPatches {
		return nil
	}
	return compact(dir)
}

// compact joins manifest and patches. A crash in between leaves patches that say
// again what the manifest holds already.
func compact(dir string) error {
	patches, err := namesOf(dir, patchPrefix)
	if err != nil {
		return fmt.Errorf("advance base: %w", err)
	}
	known, err := namesOf(dir, knownPrefix)
	if err != nil {
		return fmt.Errorf("advance base: %w", err)
	}
	m, err := loadBase(dir)
	if err != nil {
		return err
	}
	if err := writeManifest(dir, m); err != nil {
		return err
	}
	for _, name := range append(patches, known...) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("advance base: %w", err)
		}
	}
	return nil
}
