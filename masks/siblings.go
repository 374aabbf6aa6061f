package masks

import (
	"path"
	"strings"
)

// addSiblings hides the copies that editors and programs leave beside a hidden file.
// Each directory is read once, and each name in it looked at once.
func (p *planner) addSiblings() {
	files := map[string]map[string]*cover{} // directory → name → cover
	for _, c := range p.covers {
		if c.kind != KindFile || p.inBase(c.path) {
			continue
		}
		dir := parent(c.path)
		if files[dir] == nil {
			files[dir] = map[string]*cover{}
		}
		files[dir][path.Base(c.path)] = c
	}
	var found []*cover
	for dir, names := range files {
		for _, n := range p.t.list(dir) {
			for _, name := range siblingsOf(n) {
				if c := names[name]; c != nil {
					found = p.addSibling(found, c, join(dir, n))
					break
				}
			}
		}
	}
	for _, c := range found {
		p.keep(c)
	}
}

func (p *planner) addSibling(found []*cover, c *cover, path string) []*cover {
	info, err := p.t.lstat(path)
	if err != nil || info.Type == Missing || info.Type == Dir {
		return found
	}
	if c.rule.From != fromBuiltin {
		p.warn(c.rule, "has copies beside it that are hidden too; mask the directory %s to hide later ones as well", parent(path))
	}
	return append(found, &cover{path: path, kind: KindFile, info: info, phase: c.phase, rule: c.rule})
}

// siblingsOf returns the names of which name may be a copy, a lock or a half-written
// version.
func siblingsOf(name string) []string {
	var out []string
	for i := 1; i < len(name); i++ {
		rest := name[i:]
		if !isSiblingSuffix(rest) {
			continue
		}
		out = append(out, name[:i])
		if name[0] == '.' && i > 1 && (isSwap(rest) || strings.HasPrefix(rest, ".tmp")) {
			out = append(out, name[1:i])
		}
	}
	if in, ok := strings.CutPrefix(name, "#"); ok && strings.HasSuffix(in, "#") {
		out = append(out, strings.TrimSuffix(in, "#"))
	}
	if of, ok := strings.CutPrefix(name, ".#"); ok {
		out = append(out, of)
	}
	return out
}

// siblingSuffixes are those of editors, of programs that write a file and rename it,
// and of SQLite.
var siblingSuffixes = []string{
	"~", "-journal", "-shm", "-wal", ".backup", ".bak", ".lock", ".new", ".old", ".orig", ".save", ".temp", ".tmp",
}

func isSiblingSuffix(s string) bool {
	for _, suffix := range siblingSuffixes {
		if rest, ok := strings.CutPrefix(s, suffix); ok && (rest == "" || strings.IndexByte(".-_0123456789", rest[0]) >= 0) {
			return true
		}
	}
	if strings.HasPrefix(s, ".tmp") || strings.HasPrefix(s, ".~") || isSwap(s) {
		return true
	}
	return len(s) > 1 && s[0] == '.' && strings.Trim(s[1:], "0123456789") == ""
}

// isSwap reports whether s is the suffix of vim's swap file: .swp, .swo, .swn …
func isSwap(s string) bool {
	return len(s) == 4 && strings.HasPrefix(s, ".sw") && s[3] >= 'a' && s[3] <= 'z'
}
