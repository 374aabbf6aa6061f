package masks

// addInput finds what a read-only input shows.
func (p *planner) addInput(r Rule) {
	if r.Class != ReadOnlyInput {
		return
	}
	at, ok := p.find(r, r.Path, true)
	if !ok || !p.recheck(r, at.path) {
		return
	}
	for _, l := range at.via {
		if !p.inView(l) && !p.inBase(l) {
			p.addLink(l)
		}
	}
	p.inputs = append(p.inputs, &showing{rule: r, path: at.path, source: at.path, info: at.info, view: at.info.Type == Dir && p.hasEnds(at.path)})
}

func (p *planner) addLink(path string) {
	for _, l := range p.plan.Links {
		if l.Path == path {
			return
		}
	}
	p.plan.Links = append(p.plan.Links, Link{Path: path, Target: p.t.links[path]})
}

// addCarve finds what a carve-out shows: the real path, which must not be reached
// through any link, or a directory of sbxd's own.
func (p *planner) addCarve(r Rule) {
	if r.Class != CarveOut {
		return
	}
	if r.Target != "" {
		p.addPrivate(r)
		return
	}
	at, ok := p.find(r, r.Path, false)
	if !ok {
		return
	}
	if at.info.Type == Symlink || at.path != r.Path {
		p.refuse(r, "is reached through a symbolic link; name the real path, so that nobody can turn it elsewhere")
		return
	}
	if end := p.findEnd(at.path); end != "" {
		p.warn(r, "holds %s; a session can talk to whatever program of the host listens there", end)
	}
	p.carves = append(p.carves, &showing{rule: r, path: at.path, source: at.path, info: at.info})
}

func (p *planner) addPrivate(r Rule) {
	at, err := p.t.resolve(r.Path, true)
	switch {
	case err != nil:
		p.refuse(r, "cannot be looked at: %v", err)
		return
	case at.loop || at.blocked != "" || at.file != "":
		p.refuse(r, "has no place in the session: a loop of links, a file or a closed directory is on the way")
		return
	case !p.inView(at.path):
		p.refuse(r, "leads to %s, outside of HOME and the project, where a session has nothing", at.path)
		return
	case !at.missing() && (at.info.Type == Dir) != (r.Kind == KindDir):
		p.refuse(r, "is not a %s on the host, but the agent's own is", r.Kind)
		return
	}
	info, err := p.t.lstat(r.Target)
	if err != nil {
		p.refuse(r, "has its directory in %s, which cannot be looked at: %v", r.Target, err)
		return
	}
	p.carves = append(p.carves, &showing{rule: r, path: at.path, source: r.Target, info: info, via: at.via})
}

// addRuntime finds what a runtime input shows, and where: below an agent's own
// directory it keeps its place in that.
func (p *planner) addRuntime(r Rule) {
	if r.Class != RuntimeInput {
		return
	}
	source := r.Path
	if r.Target != "" {
		source = r.Target
	}
	at, ok := p.find(r, source, true)
	if !ok {
		return
	}
	real := r
	if real.Target = ""; r.Target == "" && at.path != r.Path {
		real.Path = at.path
		if err := checkRule(p.in, real); err != nil {
			p.refuse(r, "is really %s; %s", at.path, err)
			return
		}
	}
	path := at.path
	if r.Target != "" {
		path = r.Path
	}
	for _, c := range p.carves {
		if below(r.Path, c.rule.Path) {
			path = c.path + r.Path[len(c.rule.Path):]
		}
	}
	p.runtime = append(p.runtime, &showing{rule: r, path: path, source: at.path, info: at.info})
}

// find resolves the source of an input or carve-out and refuses what cannot be shown.
func (p *planner) find(r Rule, path string, follow bool) (place, bool) {
	at, err := p.t.resolve(path, follow)
	switch {
	case err != nil:
		p.refuse(r, "cannot be looked at: %v", err)
	case at.loop:
		p.refuse(r, "is a loop of symbolic links")
	case at.blocked != "":
		p.refuse(r, "cannot be looked at: no right to enter %s", at.blocked)
	case at.missing() && r.Optional:
	case at.missing():
		p.refuse(r, "does not exist; create it first or remove the rule")
	case at.info.Type == Other:
		p.refuse(r, "is a socket, device or FIFO; only files and directories can be shown")
	default:
		return at, true
	}
	return at, false
}
