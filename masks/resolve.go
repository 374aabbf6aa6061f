package masks

import (
	"fmt"
	"path"
	"strings"
)

// maxLinks is how many symbolic links one path may lead through, as in the kernel.
const maxLinks = 40

// tree is the host's tree with every answer remembered: a plan looks at the same few
// directories again and again.
type tree struct {
	host   Host
	in     Input
	info   map[string]Info
	names  map[string][]string
	links  map[string]string // every link that was met → its text
	hidden []string          // mountpoints that are not to be looked into
}

func newTree(in Input, host Host) *tree {
	t := &tree{host: host, in: in, info: map[string]Info{}, names: map[string][]string{}, links: map[string]string{}}
	for _, m := range in.Mounts {
		if m.Hidden {
			t.hidden = append(t.hidden, m.Point)
		}
	}
	return t
}

// place is where a path really leads.
type place struct {
	path string // canonical as far as it exists
	info Info
	via  []string // the links on the way
	// blocked is the directory that the uid may not look into; the rest of path is a
	// guess then.
	blocked string
	// file is the file that stands where a directory would have to be.
	file string
	loop bool
}

func (p place) missing() bool { return p.info.Type == Missing }

// resolve follows path through the host's tree. A link at its very end is followed
// only when follow is set. HOME, the project and the other views are canonical.
func (t *tree) resolve(p string, follow bool) (place, error) {
	cur := "/"
	for _, v := range t.in.views() {
		if Within(p, v) && len(v) > len(cur) {
			cur = v
		}
	}
	rest := components(strings.TrimPrefix(p, cur))
	var at place
	if info, ok := t.info[parent(p)]; ok && info.Type == Missing && parent(p) != cur {
		at.path = p
		return at, nil
	}
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			cur = parent(cur)
			continue
		}
		next := join(cur, name)
		info, err := t.lstat(next)
		switch {
		case err != nil:
			at.path, at.blocked = path.Join(append([]string{next}, rest...)...), cur
			at.info = Info{}
			return at, nil //nolint:nilerr // a directory that may not be entered is an answer
		case info.Type == Missing:
			at.path, at.info = path.Join(append([]string{next}, rest...)...), info
			return at, nil
		case info.Type == Symlink && (follow || len(rest) > 0):
			if len(at.via) == maxLinks {
				at.path, at.loop, at.info = next, true, Info{}
				return at, nil
			}
			text, err := t.readlink(next)
			if err != nil {
				return at, fmt.Errorf("read the link %s: %w", next, err)
			}
			at.via = append(at.via, next)
			rest = append(components(text), rest...)
			if path.IsAbs(text) {
				cur = "/"
			}
			continue
		case info.Type != Dir && len(rest) > 0:
			at.path, at.file = path.Join(append([]string{next}, rest...)...), next
			at.info = Info{}
			return at, nil
		}
		cur = next
	}
	info, err := t.lstat(cur)
	if err != nil {
		at.blocked = parent(cur)
	}
	at.path, at.info = cur, info
	return at, nil
}

func components(p string) []string {
	var out []string
	for c := range strings.SplitSeq(p, "/") {
		if c != "" && c != "." {
			out = append(out, c)
		}
	}
	return out
}

func (t *tree) lstat(p string) (Info, error) {
	if info, ok := t.info[p]; ok {
		return info, nil
	}
	for _, h := range t.hidden {
		if p == h {
			return Info{Type: Dir}, nil
		}
		if below(p, h) {
			return Info{}, nil
		}
	}
	info, err := t.host.Lstat(p)
	if err == nil {
		t.info[p] = info
	}
	return info, err
}

func (t *tree) readlink(p string) (string, error) {
	if text, ok := t.links[p]; ok {
		return text, nil
	}
	text, err := t.host.Readlink(p)
	if err == nil {
		t.links[p] = text
	}
	return text, err
}

// list returns the names in dir; one that cannot be read has none.
func (t *tree) list(dir string) []string {
	if names, ok := t.names[dir]; ok {
		return names
	}
	names, err := t.host.ReadDir(dir)
	if err != nil {
		names = nil
	}
	t.names[dir] = names
	return names
}
