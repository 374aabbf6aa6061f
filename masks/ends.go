package masks

import "slices"

// A socket, FIFO or device in a directory that is bound leads to whatever program of the
// host has its other end, also when the mount is read-only (unix(7), fifo(7)). Through an
// overlay the name is there and leads nowhere, since its inode is another one. So an
// input that holds such an end is shown through a view.

// endsLimit is how many entries of an input are looked at, some 2 µs each.
const endsLimit = 2048

// hasEnds reports whether an input may lead to programs of the host: below /run, where
// such ends come and go, they count as there.
func (p *planner) hasEnds(dir string) bool {
	return Within(dir, "/run") || p.findEnd(dir) != ""
}

// findEnd returns a socket, FIFO or device in dir, upper levels first, or "".
func (p *planner) findEnd(dir string) string {
	left := endsLimit
	for queue := []string{dir}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if slices.ContainsFunc(p.t.hidden, func(h string) bool { return Within(at, h) }) {
			continue // it may hang
		}
		for _, name := range p.t.list(at) {
			if left--; left < 0 {
				return ""
			}
			info, err := p.t.lstat(join(at, name))
			switch {
			case err != nil:
			case info.Type == Other:
				return join(at, name)
			case info.Type == Dir:
				queue = append(queue, join(at, name))
			}
		}
	}
	return ""
}
