package masks

import (
	"slices"
	"strings"
)

// addCover finds what a mask hides: the path itself and, when it is a link, what it
// leads to.
func (p *planner) addCover(r Rule) {
	if r.Class != Mask && r.Class != FinalMask {
		return
	}
	at, err := p.t.resolve(r.Path, false)
	if err != nil {
		p.refuse(r, "cannot be looked at: %v", err)
		return
	}
	switch {
	case at.loop:
		p.warn(r, "hides nothing: the links on the way form a loop")
		return
	case at.file != "":
		p.warn(r, "hides nothing: %s is a file, not a directory", at.file)
		return
	case at.blocked != "":
		p.coverBlocked(r, at.blocked)
		return
	case !p.recheck(r, at.path):
		return
	}
	if p.put(r, at) && at.missing() && r.From != fromBuiltin {
		p.unmatched(r, at)
	}
	if at.info.Type != Symlink {
		return
	}
	to, err := p.t.resolve(r.Path, true)
	if err != nil || to.loop || to.blocked != "" || to.file != "" {
		return
	}
	switch {
	case p.overView(to.path):
		p.warn(r, "is a link to %s, which is too much to hide; only the link is hidden", to.path)
	case p.inView(to.path) || shown(p.inputs, to.path) || shown(p.carves, to.path):
		p.put(r, to)
	}
}

// put hides the place that was found for a rule. It returns false when no session sees
// that place anyway.
func (p *planner) put(r Rule, at place) bool {
	c := &cover{path: at.path, kind: p.kindOf(r, at), info: at.info, phase: r.Class, rule: r, via: at.via}
	visible := p.inView(c.path) || shown(p.inputs, c.path) || shown(p.carves, c.path)
	switch {
	case !visible && p.inBase(c.path):
		if c.missing() {
			if r.From != fromBuiltin {
				p.warn(r, "does not exist, and what the host puts there later will be seen; name a directory that exists")
			}
			return false
		}
	case !visible:
		if r.From != fromBuiltin {
			p.warn(r, "is outside of everything that a session sees, and stays so")
		}
		return false
	}
	p.keep(c)
	return true
}

// keep remembers a cover; of two for one path the later phase wins.
func (p *planner) keep(c *cover) {
	if old, ok := p.covers[c.path]; ok && old.phase >= c.phase {
		return
	}
	p.covers[c.path] = c
}

// kindOf tells what stands over a path: like it, or, when nothing is there, like the
// rule says, or a directory when another rule lies below.
func (p *planner) kindOf(r Rule, at place) Kind {
	switch {
	case at.info.Type == Dir:
		return KindDir
	case at.info.Type != Missing:
		return KindFile
	case r.Kind != KindAny:
		return r.Kind
	case p.above[r.Path] || p.above[at.path]:
		return KindDir
	}
	return KindFile
}

// coverBlocked hides a directory that the uid may not enter: what is in it cannot be
// told now, and may be open to it later.
func (p *planner) coverBlocked(r Rule, dir string) {
	if !p.inView(dir) {
		if slices.Contains(p.in.views(), dir) {
			p.refuse(r, "cannot be hidden: no right to enter %s", dir)
		}
		return
	}
	if r.From != fromBuiltin {
		p.warn(r, "lies in %s, which cannot be entered; all of that is hidden", dir)
	}
	p.keep(&cover{path: dir, kind: KindDir, info: Info{Type: Dir}, phase: r.Class, rule: r})
}

// unmatched reports a mask of the user that hides nothing yet.
func (p *planner) unmatched(r Rule, at place) {
	p.plan.Unmatched = append(p.plan.Unmatched, r)
	dir := parent(at.path)
	if info, err := p.t.lstat(dir); err == nil && info.Type == Missing {
		p.warn(r, "matches nothing, and not even %s exists; check the spelling", dir)
	}
}

// parent returns the directory of an absolute clean path.
func parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "/"
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
