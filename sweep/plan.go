package sweep

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// Prefixes of directories that are no session: a record in the making, and one whose
// removal was decided.
const (
	newPrefix = "new-"
	oldPrefix = "old-"
	// probePrefix begins the name of a directory in which a probe tried something.
	probePrefix = ".probe-"
)

// Make says what is to be done. It is pure: the same input gives the same plan.
func Make(seen Seen, known Known) Plan {
	p := &planner{seen: seen, known: known}
	p.index()
	for _, r := range known.Records {
		p.record(r)
	}
	for _, d := range seen.Dirs {
		p.directory(d)
	}
	for _, d := range seen.Probes {
		p.probe(d)
	}
	p.homeless()
	for _, d := range seen.Dirs {
		p.pins(d)
	}
	for _, s := range seen.Sockets {
		p.socket(s)
	}
	order := []Action{Kill, Unmount, Stop, Remove, Archive, Keep}
	slices.SortStableFunc(p.entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session),
			cmp.Compare(slices.Index(order, a.Action), slices.Index(order, b.Action)))
	})
	return Plan{Entries: p.entries, Faults: seen.Faults}
}

type planner struct {
	seen       Seen
	known      Known
	records    map[session.ID]session.Record
	sockets    map[session.ID]Socket
	namespaces map[uint64]Namespace
	uses       map[string][]use // by a directory's path
	blind      bool             // our own table could not be read whole
	lives      map[session.ID]life
	// lacking are sessions whose directory holds no record, which a user's layout
	// takes for broken ones.
	lacking map[session.ID]bool
	killed  []proc.ID // by entries so far
	entries []Entry
}

func (p *planner) index() {
	p.records = map[session.ID]session.Record{}
	p.sockets = map[session.ID]Socket{}
	p.namespaces = map[uint64]Namespace{}
	p.lives = map[session.ID]life{}
	p.lacking = map[session.ID]bool{}
	for _, d := range p.seen.Dirs {
		if id, prefix := split(d.Name); prefix == "" && !d.Record && !p.known.System {
			p.lacking[id] = true
		}
	}
	for _, r := range p.known.Records {
		p.records[r.ID] = r
	}
	for _, s := range p.seen.Sockets {
		p.sockets[s.ID] = s
	}
	for _, n := range p.seen.Namespaces {
		p.namespaces[n.Inode] = n
	}
	p.indexUses()
}

func (p *planner) add(e Entry) { p.entries = append(p.entries, e) }

func (p *planner) keep(id session.ID, kind, what, reason, proof string) {
	p.add(Entry{Action: Keep, Kind: kind, What: what, Session: id, Reason: reason, Proof: proof})
}

// record plans for a session that has a record. Its directory is always kept.
func (p *planner) record(r session.Record) {
	keep := func(reason, proof string) { p.keep(r.ID, KindRecord, string(r.ID), reason, proof) }
	switch {
	case p.known.Busy[r.ID]:
		p.lives[r.ID] = life{is: proc.Unknown}
		keep("something is being done with it", "the daemon holds its lock")
		return
	case r.State == session.Broken:
		p.lives[r.ID] = life{is: proc.Unknown}
		if !p.lacking[r.ID] {
			keep("it is broken and waits for a decision", r.Reason)
		}
		return
	}
	l := p.judge(r)
	p.lives[r.ID] = l
	switch {
	case l.is == proc.Alive:
		keep("it is alive", l.proof)
	case l.is == proc.Unknown:
		keep("whether it is alive is unknown", l.proof)
	case r.State == session.Creating && p.seen.Now.Sub(r.Created) < Young:
		p.lives[r.ID] = life{is: proc.Unknown}
		keep("it is young", fmt.Sprintf("made less than %v ago", Young))
	default:
		p.dead(r, l)
	}
}

// dead plans for a session whose shim is certainly gone.
func (p *planner) dead(r session.Record, l life) {
	p.kill(r.ID, l.left, "its session's shim is gone", l.proof)
	for _, d := range p.dirsOf(r) {
		p.unmounts(r.ID, d, "its session is dead", l.proof, l.left)
	}
	if !r.State.Live() {
		if len(l.left) == 0 {
			p.keep(r.ID, KindRecord, string(r.ID), fmt.Sprintf("it is %s", r.State), l.proof)
		}
		return
	}
	p.add(Entry{
		Action: Stop, Kind: KindRecord, What: string(r.ID), Session: r.ID, State: r.State,
		Reason: fmt.Sprintf("it is recorded as %s and is dead; its work is kept", r.State), Proof: l.proof,
	})
}

// dirsOf are the directories of a recorded session.
func (p *planner) dirsOf(r session.Record) []string {
	var out []string
	for _, b := range p.seen.Bases {
		out = append(out, b.Path+"/"+string(r.ID))
	}
	return out
}

// unmounts plans the removal of the mounts below dir in our own namespace, and
// reports whether that frees dir: a mount in another namespace, unless it ends with the
// processes that are killed, or one without a name, does not go away so. Only outermost
// mounts are listed: they are detached with what is below them, and no path through a
// mount is ever walked.
func (p *planner) unmounts(id session.ID, dir, reason, proof string, killed []proc.ID) (frees bool, why string) {
	frees = !p.blind
	if p.blind {
		why = "our own mount table has lines that cannot be read"
	}
	uses := p.uses[dir]
	for _, u := range slices.Backward(uses) {
		switch {
		case u.ns != p.seen.Own && endsWith(p.namespaces[u.ns], killed):
			continue
		case u.how != useBelow || u.ns != p.seen.Own || !u.mount.reachable():
			frees, why = false, u.String()
			continue
		case slices.ContainsFunc(uses, func(o use) bool { return o.how == useBelow && o.ns == u.ns && o.above(u) }):
			continue
		}
		p.add(Entry{
			Action: Unmount, Kind: KindMount, What: u.mount.Point, Session: id, Path: u.mount.Point,
			Reason: reason, Proof: u.String() + "; " + proof,
		})
	}
	return frees, why
}

// directory plans for an entry of a directory of sessions that no record explains.
func (p *planner) directory(d Dir) {
	id, prefix := split(d.Name)
	if d.isPins() || id != "" && prefix == "" && p.explained(id) {
		return
	}
	keep := func(reason, proof string) { p.keep(id, KindDirectory, d.Path(), reason, proof) }
	sock, hasSocket := p.sockets[id]
	switch {
	case p.known.Busy[id]:
		keep("something is being done with it", "the daemon holds its lock")
		return
	case p.seen.Now.Sub(d.Changed) < Young:
		keep("it is young", fmt.Sprintf("changed less than %v ago", Young))
		return
	case hasSocket && sock.Answers != proc.Dead:
		keep("it may be alive", fmt.Sprintf("its socket %s is served, or cannot be asked", sock.Path))
		return
	}
	reason, proof := why(d.Name)
	left := p.strays(nil, d.Path())
	p.kill(id, left, reason, proof)
	if frees, why := p.unmounts(id, d.Path(), reason, proof, left); !frees {
		keep(reason+", but it is in use", why)
		return
	}
	e := Entry{
		Action: Remove, Kind: KindDirectory, What: d.Path(), Session: id,
		Path: d.Path(), UID: d.UID, Reason: reason, Proof: proof,
	}
	if d.Work && id != "" && prefix != oldPrefix && !p.retired(id) {
		e.Action, e.To = Archive, p.archive(d, id)
		e.Reason += " but holds work that has not landed"
	}
	p.add(e)
}

// why says why a directory that no record explains may go.
func why(name string) (reason, proof string) {
	switch {
	case isProbe(name):
		return "a probe left it", "it carries the name of a probe's directory, and is older than " + Young.String()
	case strings.HasPrefix(name, newPrefix):
		return "it was never finished", "it carries the name of one in the making, and is older than " + Young.String()
	case strings.HasPrefix(name, oldPrefix):
		return "its removal was decided", "it carries the name of one that was retired"
	}
	return "it has no record", "no record names " + name + " and no socket of it answers"
}

// explained reports whether a record stands for the directories of session id.
func (p *planner) explained(id session.ID) bool {
	if r, ok := p.records[id]; ok {
		return r.State != session.Broken || !p.lacking[id]
	}
	return false
}

// retired reports whether the removal of the session was decided: what its data
// directory holds may go.
func (p *planner) retired(id session.ID) bool {
	return slices.ContainsFunc(p.seen.Dirs, func(d Dir) bool { return d.Name == oldPrefix+string(id) })
}

// archive is where a directory with work goes: beside sessions/, so that it is one
// rename.
func (p *planner) archive(d Dir, id session.ID) string {
	stamp := p.seen.Now.UTC().Format("20060102T150405Z")
	return filepath.Dir(d.Base) + "/archive/" + string(id) + "-" + stamp
}

// socket plans for a socket. It goes when its session is certainly not served.
func (p *planner) socket(s Socket) {
	r, recorded := p.records[s.ID]
	switch {
	case !recorded && s.Answers != proc.Dead && !p.known.Busy[s.ID]:
		p.keep(s.ID, KindSocket, s.Path, "it is served, though no session has it", "it answers, or cannot be asked")
		return
	case s.Answers != proc.Dead, p.known.Busy[s.ID]:
		return // the session's own entry says why it is kept
	case recorded && p.lives[s.ID].is != proc.Dead:
		return
	case !recorded && p.seen.Now.Sub(s.Changed) < Young:
		p.keep(s.ID, KindSocket, s.Path, "it is young", fmt.Sprintf("made less than %v ago", Young))
		return
	}
	reason := "no session has it"
	if recorded {
		reason = strings.TrimSpace(fmt.Sprintf("its session is dead (recorded as %s)", r.State))
	}
	p.add(Entry{
		Action: Remove, Kind: KindSocket, What: s.Path, Session: s.ID, Path: s.Path,
		Reason: reason, Proof: "nobody listens on it",
	})
}
