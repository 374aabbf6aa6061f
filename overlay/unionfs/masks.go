package unionfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Masks are patterns of paths that a view does not have. A pattern is names with
// '/' between them, below the root of the view: '*' any bytes of a name, '?' one,
// [a-z] and [!a-z] one of a set, '\' takes the next as it is, and '**' any number
// of whole names. What matches is hidden with all below it.
//
// Masks are compiled to states: a directory of the view has a set of them, its
// entries one step on. So a path is never put together.
type Masks struct {
	patterns [][]string // names of each pattern; "**" is globstar
	files    map[FileID]bool
}

// FileID is a file that is hidden under any name: one of a lower that has a masked
// name and another.
type FileID struct{ Dev, Ino uint64 }

// state is a set of places in patterns: pattern<<16 | index of the next name.
type state []uint32

// Bounds of patterns, far beyond any list that a person writes.
const (
	maxPatterns = 4096
	maxSegments = 256
)

// CompileMasks reads patterns. Hidden are also the files.
func CompileMasks(patterns []string, files ...FileID) (*Masks, error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("compile masks: %d patterns, at most %d", len(patterns), maxPatterns)
	}
	m := &Masks{files: map[FileID]bool{}}
	for _, p := range patterns {
		segments := strings.Split(strings.Trim(p, "/"), "/")
		if len(segments) > maxSegments {
			return nil, fmt.Errorf("compile mask %q: too many names", p)
		}
		for _, s := range segments {
			if err := checkSegment(s); err != nil {
				return nil, fmt.Errorf("compile mask %q: %w", p, err)
			}
		}
		if segments[len(segments)-1] == "**" {
			segments = append(segments, "*") // what is in it, not itself
		}
		m.patterns = append(m.patterns, segments)
	}
	for _, f := range files {
		m.files[f] = true
	}
	return m, nil
}

func checkSegment(s string) error {
	switch {
	case s == "" || s == "." || s == "..":
		return errors.New("a name is missing, or is '.' or '..'")
	case s != "**" && strings.Contains(s, "**"):
		return errors.New("'**' stands for whole names")
	}
	_, err := matchName(s, "")
	return err
}

// start is the state of the root.
func (m *Masks) start() state {
	if m == nil {
		return nil
	}
	var s state
	for i := range m.patterns {
		s = m.add(s, uint32(i)<<16)
	}
	return s
}

// add adds a place, and those that a globstar of no names leads to.
func (m *Masks) add(s state, at uint32) state {
	if slices.Contains(s, at) {
		return s
	}
	s = append(s, at)
	p, i := m.patterns[at>>16], int(at&0xffff)
	if i < len(p) && p[i] == "**" {
		s = m.add(s, at+1)
	}
	return s
}

// step is the state of the entry name of a directory in state s.
func (m *Masks) step(s state, name string) state {
	if m == nil || len(s) == 0 {
		return nil
	}
	var out state
	for _, at := range s {
		p, i := m.patterns[at>>16], int(at&0xffff)
		switch {
		case i == len(p):
		case p[i] == "**":
			out = m.add(out, at)
		default:
			if ok, _ := matchName(p[i], name); ok {
				out = m.add(out, at+1)
			}
		}
	}
	slices.Sort(out)
	return out
}

// hides reports whether the entry name of a directory in state s is hidden.
func (m *Masks) hides(s state, name string) bool {
	if m == nil {
		return false
	}
	for _, at := range s {
		p, i := m.patterns[at>>16], int(at&0xffff)
		if i != len(p)-1 || p[i] == "**" {
			continue
		}
		if ok, _ := matchName(p[i], name); ok {
			return true
		}
	}
	return false
}

func (s state) equal(o state) bool { return slices.Equal(s, o) }

// matchName matches one name byte by byte, as a shell does. The time is bounded by
// the product of the lengths.
func matchName(pattern, name string) (bool, error) {
	back, from := -1, 0 // the last star, and where its rest began
	p, n := 0, 0
	for n < len(name) || p < len(pattern) {
		if p < len(pattern) && pattern[p] == '*' {
			back, from = p, n
			p++
			continue
		}
		if p < len(pattern) {
			size, ok, err := matchOne(pattern[p:], name[n:])
			if err != nil {
				return false, err
			}
			if ok {
				p, n = p+size, n+1
				continue
			}
		}
		if back < 0 || from >= len(name) {
			return false, checkRest(pattern, p)
		}
		from++
		p, n = back+1, from
	}
	return true, nil
}

// checkRest finds faults in what was not compared.
func checkRest(pattern string, p int) error {
	for p < len(pattern) {
		size, _, err := matchOne(pattern[p:], "x")
		if err != nil {
			return err
		}
		p += size
	}
	return nil
}

var errPattern = errors.New("a set or an escape does not end")

// matchOne matches the first element of pattern with the first byte of name, and
// returns the length of the element.
func matchOne(pattern, name string) (size int, ok bool, err error) {
	switch pattern[0] {
	case '*':
		return 1, true, nil
	case '?':
		return 1, name != "", nil
	case '[':
		return matchSet(pattern, name)
	case '\\':
		if len(pattern) < 2 {
			return 0, false, errPattern
		}
		return 2, name != "" && name[0] == pattern[1], nil
	}
	return 1, name != "" && name[0] == pattern[0], nil
}

func matchSet(pattern, name string) (size int, ok bool, err error) {
	i := 1
	not := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if not {
		i++
	}
	in := false
	for first := true; ; first = false {
		if i >= len(pattern) {
			return 0, false, errPattern
		}
		if pattern[i] == ']' && !first {
			break
		}
		lo, next, err := setByte(pattern, i)
		if err != nil {
			return 0, false, err
		}
		hi := lo
		if next+1 < len(pattern) && pattern[next] == '-' && pattern[next+1] != ']' {
			if hi, next, err = setByte(pattern, next+1); err != nil {
				return 0, false, err
			}
		}
		in = in || name != "" && lo <= name[0] && name[0] <= hi
		i = next
	}
	return i + 1, name != "" && in != not, nil
}

func setByte(pattern string, i int) (b byte, next int, err error) {
	if pattern[i] == '\\' {
		i++
	}
	if i >= len(pattern) {
		return 0, 0, errPattern
	}
	return pattern[i], i + 1, nil
}

// spotMasked looks at a hidden entry of a lower: a file with other names is hidden
// under those too.
func (f *fs) spotMasked(dir, layer int, de dirent) {
	if layer == upperLayer || de.kind != unix.S_IFREG {
		return
	}
	var st unix.Statx_t
	if statAt(dir, de.name, &st) == nil && kindOf(&st) == unix.S_IFREG && st.Nlink > 1 {
		f.hideFile(keyOf(&st))
	}
}

// spotName is spotMasked for an event about a hidden name.
func (f *fs) spotName(d watched, name string) {
	fd, err := f.acquire(d.n, d.layer)
	if err != nil {
		return
	}
	defer d.n.release()
	f.spotMasked(fd, d.layer, dirent{name: name, kind: unix.S_IFREG})
}

// hideFile hides a file of a lower under every name.
func (f *fs) hideFile(k key) {
	f.tree.Lock()
	f.hidden[FileID{k.dev, k.ino}] = true
	n := f.byKey[k]
	var links []link
	if n != nil && !n.inUpper.Load() {
		n.masked.Store(true)
		links = n.links
	}
	f.tree.Unlock()
	for _, l := range links {
		l.parent.changed()
		f.invalidate(notice{node: l.parent.id, name: l.name})
		f.invalidate(notice{node: l.parent.id})
		f.invalidate(notice{node: n.id})
	}
}

// isHiddenEntry reports whether a listed file of a lower is hidden for another name.
func (f *fs) isHiddenEntry(de dirent) bool {
	if f.opt.Masks == nil || de.layer == upperLayer || de.kind != unix.S_IFREG {
		return false
	}
	f.tree.RLock()
	defer f.tree.RUnlock()
	return f.isHidden(key{dev: f.layerDev(de.layer), ino: de.ino})
}

// isHidden reports whether a file of a lower is; fs.tree is held.
func (f *fs) isHidden(k key) bool {
	id := FileID{k.dev, k.ino}
	return f.opt.Masks != nil && (f.opt.Masks.files[id] || f.hidden[id])
}
