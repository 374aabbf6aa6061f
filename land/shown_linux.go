package land

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbxd/sbxd/session"
)

const (
	shownPrefix = "shown-"
	shownMagic  = "sbxd-shown-1\n"

	// maxShown is how many changesets are remembered to tell what changed since.
	maxShown = 8
)

// remember keeps the parts of a changeset that was shown, so that a later one can
// say what is different.
func remember(dir, id string, parts map[string]string) {
	e := &encoder{}
	e.uint(uint64(len(parts)))
	for p, h := range parts {
		e.str(p)
		e.str(h)
	}
	name := filepath.Join(dir, shownPrefix+id)
	if _, err := os.Stat(name); err == nil {
		now := time.Now()
		_ = os.Chtimes(name, now, now)
		return
	}
	// A cache: losing it costs the list of paths in one message.
	tmp := filepath.Join(dir, tmpPrefix+string(session.NewID()))
	if os.WriteFile(tmp, e.seal(shownMagic), 0o600) != nil || os.Rename(tmp, name) != nil {
		_ = os.Remove(tmp)
	}
	forget(dir)
}

// forget removes all but the newest changesets that were shown.
func forget(dir string) {
	entries, _ := os.ReadDir(dir)
	age := map[string]int64{}
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), shownPrefix) {
			names = append(names, e.Name())
			age[e.Name()] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(age[a], age[b]) })
	for len(names) > maxShown {
		_ = os.Remove(filepath.Join(dir, names[0]))
		names = names[1:]
	}
}

// shown returns the parts of a changeset that was remembered, or nil.
func shown(dir, id string) map[string]string {
	if strings.ContainsAny(id, "/\x00") {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, shownPrefix+id))
	if err != nil {
		return nil
	}
	d, err := unseal(shownMagic, b)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for range d.count() {
		p := d.str()
		out[p] = d.str()
	}
	if d.end() != nil {
		return nil
	}
	return out
}
