package sweep

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// strays adds to ids the processes of other namespaces of ours that have a view of one
// of dirs: of a session whose shim is gone, nobody else will ever end them. Such are a
// payload whose monitor was killed with the shim before it had its parent-death signal.
func (p *planner) strays(ids []proc.ID, dirs ...string) []proc.ID {
	for _, dir := range dirs {
		for _, u := range p.uses[dir] {
			n := p.namespaces[u.ns]
			if u.how != useLayer || u.ns == p.seen.Own || !n.isOurs() {
				continue
			}
			for _, id := range n.Processes {
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}

// kill plans for the processes that are left of a session.
func (p *planner) kill(id session.ID, left []proc.ID, reason, proof string) {
	p.killed = append(p.killed, left...)
	for _, process := range left {
		p.add(Entry{
			Action: Kill, Kind: KindProcess, What: describeID("process", process), Session: id, Process: process,
			Reason: reason, Proof: proof,
		})
	}
}

// homeless plans for the processes of sessions of which there is nothing else: no record,
// no directory, no socket that answers. The directory of a session is there before its
// views are mounted, and the tables were read before the directories.
func (p *planner) homeless() {
	there := map[string]bool{}
	for _, d := range p.seen.Dirs {
		there[d.Path()] = true
	}
	var dirs []string
	for dir, uses := range p.uses {
		id, prefix := split(filepath.Base(dir))
		_, recorded := p.records[id]
		s, hasSocket := p.sockets[id]
		if id == "" || prefix != "" || recorded || there[dir] || p.known.Busy[id] || hasSocket && s.Answers != proc.Dead {
			continue
		}
		if slices.ContainsFunc(uses, func(u use) bool { return u.how == useLayer }) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		id, _ := split(filepath.Base(dir))
		p.kill(id, p.strays(nil, dir), "nothing else of its session is left",
			fmt.Sprintf("its namespace has an overlay of %s, which is gone; no record names it and no socket of it answers", dir))
	}
}

// isPins reports whether d is a set of placeholders.
func (d Dir) isPins() bool { return filepath.Base(d.Base) == pinsDir }

// pins plans for a set of placeholders: it goes when no session can show it. Remove
// leaves one alone that a shim holds.
func (p *planner) pins(d Dir) {
	if !d.isPins() {
		return
	}
	e := Entry{Action: Remove, Kind: KindDirectory, What: d.Path(), Path: d.Path(), UID: d.UID}
	unfinished := strings.HasPrefix(d.Name, newPrefix)
	switch {
	case p.usedStill(d.Path()):
		return
	case unfinished && p.seen.Now.Sub(d.Changed) < Young:
		p.keep("", KindDirectory, d.Path(), "it is young", fmt.Sprintf("changed less than %v ago", Young))
		return
	case unfinished, strings.HasPrefix(d.Name, oldPrefix):
		e.Reason, e.Proof = why(d.Name)
	case p.livesAny(d.UID):
		return
	default:
		e.Reason = "no session of its user uses it"
		e.Proof = fmt.Sprintf("no session of uid %d is alive, and no mount table has an overlay of it", d.UID)
	}
	p.add(e)
}

// usedStill reports whether a directory is in use when all that is killed is gone.
func (p *planner) usedStill(dir string) bool {
	return slices.ContainsFunc(p.uses[dir], func(u use) bool { return !endsWith(p.namespaces[u.ns], p.killed) })
}

// livesAny reports whether a session of uid is alive or may be.
func (p *planner) livesAny(uid int) bool {
	return slices.ContainsFunc(p.known.Records, func(r session.Record) bool {
		return r.UID == uid && p.lives[r.ID].is != proc.Dead
	})
}
