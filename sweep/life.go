package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// life is what is known of a session's processes, and what shows it.
type life struct {
	is    proc.Liveness
	proof string
	// left are processes that certainly belong to a session whose shim is gone.
	left []proc.ID
}

// judge finds out whether a recorded session lives. It lives when its shim does: nobody
// else can be spoken to. What else of it still runs is left over.
func (p *planner) judge(r session.Record) life {
	if r.Boot != "" && r.Boot != p.seen.Boot {
		return life{is: proc.Dead, proof: "it was started in another boot of this machine"}
	}
	shim := r.Running.Shim
	if shim == (proc.ID{}) {
		return p.unrecorded(r)
	}
	switch p.seen.Processes[shim] {
	case proc.Alive:
		return life{is: proc.Alive, proof: describeID("shim", shim) + " runs"}
	case proc.Unknown:
		return life{is: proc.Unknown, proof: describeID("shim", shim) + " cannot be looked at"}
	}
	l := life{is: proc.Dead, proof: describeID("shim", shim) + " is gone"}
	for _, id := range []proc.ID{r.Running.Bwrap, r.Running.Guest} {
		switch {
		case id == (proc.ID{}):
		case p.seen.Processes[id] == proc.Unknown:
			return life{is: proc.Unknown, proof: describeID("process", id) + " cannot be looked at"}
		case p.seen.Processes[id] == proc.Alive:
			l.left = append(l.left, id)
		}
	}
	l.left = append(l.left, p.inside(r)...)
	l.left = p.strays(l.left, p.dirsOf(r)...)
	if u, ok := p.heldBy(r, l.left); ok {
		return life{is: proc.Unknown, proof: l.proof + ", but " + u.String()}
	}
	return l
}

// heldBy finds an overlay of the session's directories in a namespace that does not
// end with the processes that are left.
func (p *planner) heldBy(r session.Record, left []proc.ID) (use, bool) {
	for _, dir := range p.dirsOf(r) {
		for _, u := range p.uses[dir] {
			if u.how == useLayer && !endsWith(p.namespaces[u.ns], left) {
				return u, true
			}
		}
	}
	return use{}, false
}

// endsWith reports whether all processes of a namespace are among ids.
func endsWith(n Namespace, ids []proc.ID) bool {
	return len(n.Processes) > 0 &&
		!slices.ContainsFunc(n.Processes, func(id proc.ID) bool { return !slices.Contains(ids, id) })
}

// unrecorded judges a session that names no process: only its socket can answer.
func (p *planner) unrecorded(r session.Record) life {
	if s, ok := p.sockets[r.ID]; ok && s.Answers != proc.Dead {
		return life{is: proc.Unknown, proof: "its record names no process, but its socket may be served"}
	}
	l := life{is: proc.Dead, proof: "its record names no process and no socket answers"}
	l.left = p.strays(nil, p.dirsOf(r)...)
	return l
}

// inside are the processes of the mount namespace that the record names. The number of
// a namespace is used again, so it has to show our program, and its processes have to
// be younger than the shim.
func (p *planner) inside(r session.Record) []proc.ID {
	n, ok := p.namespaces[r.Running.MountNS]
	if !ok || r.Running.MountNS == 0 || n.Inode == p.seen.Own || !n.isOurs() {
		return nil
	}
	var out []proc.ID
	for _, id := range n.Processes {
		if id.Start < r.Running.Shim.Start {
			return nil
		}
		if id != r.Running.Bwrap && id != r.Running.Guest {
			out = append(out, id)
		}
	}
	return out
}

func describeID(what string, id proc.ID) string {
	return fmt.Sprintf("%s %d (started at tick %d)", what, id.Pid, id.Start)
}

// use is a line of a table that has to do with a directory.
type use struct {
	ns    uint64
	mount Mount
	how   string // below: mounted at or below it; shows: a mount of it; layer: of an overlay
}

const (
	useBelow = "below"
	useShows = "shows"
	useLayer = "layer"
)

func (u use) String() string {
	switch u.how {
	case useBelow:
		return fmt.Sprintf("mount namespace %d lists a %s at %q", u.ns, u.mount.FSType, u.mount.Point)
	case useShows:
		return fmt.Sprintf("mount namespace %d shows it at %q", u.ns, u.mount.Point)
	}
	return fmt.Sprintf("mount namespace %d has an overlay of it at %q", u.ns, u.mount.Point)
}

// indexUses finds, for each directory of a session, the lines that have to do with it:
// one pass over all tables.
func (p *planner) indexUses() {
	p.uses = map[string][]use{}
	for _, n := range p.seen.Namespaces {
		p.blind = p.blind || n.Inode == p.seen.Own && n.Partial
		for _, m := range n.Mounts {
			for _, b := range p.seen.Bases {
				if name, how := touches(m, b); how != "" {
					key := b.Path + "/" + name
					p.uses[key] = append(p.uses[key], use{n.Inode, m, how})
				}
			}
		}
	}
}

// touches returns the name of the directory in b that a mount has to do with.
func touches(m Mount, b Base) (name, how string) {
	if below, ok := rel(b.Path, m.Point); ok {
		return first(below), useBelow
	}
	if b.FSPath != "" && m.Major == b.Major && m.Minor == b.Minor {
		if below, ok := rel(b.FSPath, m.Root); ok {
			return first(below), useShows
		}
	}
	if m.Label.ID != "" && m.Label.In == b.ID {
		return string(m.Label.ID), useLayer
	}
	for _, l := range m.Layers {
		if below, ok := rel(b.Path, l); ok {
			return first(below), useLayer
		}
	}
	return "", ""
}

// above reports whether u's mountpoint lies above that of o.
func (u use) above(o use) bool {
	_, ok := rel(u.mount.Point, o.mount.Point)
	return ok
}

// reachable reports whether a mount can be named: a removed mountpoint cannot.
func (m Mount) reachable() bool { return !strings.HasSuffix(m.Point, deleted) }
