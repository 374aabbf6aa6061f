package unionfs

import "slices"

// expireAll is for events that were lost: whatever lies in a lower is looked at
// again.
func (f *fs) expireAll() {
	f.tree.RLock()
	all := make([]*node, 0, len(f.byID))
	for _, n := range f.byID {
		all = append(all, n)
	}
	var names []link
	for _, n := range all {
		for _, l := range n.links {
			if l.parent.lower != 0 {
				names = append(names, l)
			}
		}
	}
	f.tree.RUnlock()
	for _, n := range all {
		if n.dir != nil {
			n.changed()
		}
		f.invalidate(notice{node: n.id})
	}
	for _, l := range names {
		if !f.carries(l) {
			f.invalidate(notice{node: l.parent.id, name: l.name})
		}
	}
}

// carries reports whether the kernel has mounts at or below a name, which it would drop
// with it, and the name is what it was.
func (f *fs) carries(l link) bool {
	if f.held(l.parent, l.name) {
		return true
	}
	if !f.opt.Masks.leads(l.parent.states, l.name) {
		return false
	}
	var e entry
	l.parent.mu.RLock()
	err := f.look(l.parent, l.name, &e)
	l.parent.mu.RUnlock()
	if err != nil {
		return false
	}
	f.tree.RLock()
	defer f.tree.RUnlock()
	n := f.find(&e)
	return n != nil && slices.Contains(n.links, l)
}
