package land

import (
	"strings"

	"github.com/sbxd/sbxd/overlay"
)

// Reasons why a path of a session stays where it is.
const (
	HeldGit    = "git"        // inside or named .git: the host's git runs what is in there
	HeldMasked = "masked"     // a credential mask covers it
	HeldOwn    = "sbxd"       // our own directory
	HeldPolicy = "policy"     // .sbxd.toml: a session does not write its own rules
	HeldFIFO   = "fifo"       // skipped: nobody is at the other end
	HeldSocket = "socket"     // skipped: it leads nowhere without its process
	HeldDevice = "device"     // never: it would open a device of the host
	HeldSetID  = "setid"      // set-user-id and set-group-id bits are taken off
	HeldXattr  = "xattr"      // attributes other than user.*, and those of a directory that is there
	HeldForged = "forged"     // looks like a mark of an overlay and is none
	HeldInside = "held-below" // a directory that still holds one of the above
	HeldParent = "held-above" // below something that is held
	NoteLink   = "link-leaves-project"
	NoteSplit  = "hardlink-split"
	NoteLate   = "late-write"
	NotePrune  = "prune"
	NoteOwner  = "owner-changes"
)

// policyFile is read from the real project when a session starts.
const policyFile = ".sbxd.toml"

// Held is something of a session that does not land, and why.
type Held struct {
	Path   string
	Reason string // one of the Held constants
	Detail string // the attribute's or mark's name
	Count  int    // entries, where a whole tree is held for one reason
}

// Notice is something about a path that lands, which a reviewer should know.
type Notice struct {
	Path string
	Kind string // one of the Note constants
	What string
}

// neverLands returns why nothing at p may come from a session, and the topmost
// path that this holds for.
func neverLands(p string) (reason, top string) {
	for end := 0; end < len(p); end++ {
		start := end
		for end < len(p) && p[end] != '/' {
			end++
		}
		name := p[start:end]
		switch {
		case strings.EqualFold(name, ".git"):
			return HeldGit, p[:end]
		case start == 0 && strings.EqualFold(name, stateDir):
			return HeldOwn, p[:end]
		case start == 0 && strings.EqualFold(name, policyFile):
			return HeldPolicy, p[:end]
		}
	}
	return "", ""
}

// heldType returns why an entry of this type does not land.
func heldType(t overlay.Type) string {
	switch t {
	case overlay.FIFO:
		return HeldFIFO
	case overlay.Socket:
		return HeldSocket
	case overlay.Device, overlay.None:
		return HeldDevice
	default:
		return ""
	}
}

// sieve parts what a session changed into what may land and what is held.
type sieve struct {
	items  []Item
	held   []Held
	trees  map[[2]string]int // topmost held path and reason: index in held
	masked []string          // sorted, topmost
	under  string            // a held entry that replaced a directory of the base
}

func newSieve(masked []string) *sieve {
	return &sieve{trees: map[[2]string]int{}, masked: topmost(masked)}
}

// hold notes one entry of a tree that is held for one reason.
func (s *sieve) hold(top, reason string) {
	key := [2]string{top, reason}
	if i, ok := s.trees[key]; ok {
		s.held[i].Count++
		return
	}
	s.trees[key] = len(s.held)
	s.held = append(s.held, Held{Path: top, Reason: reason, Count: 1})
}

// add takes the next change, in path order.
func (s *sieve) add(c overlay.Change) {
	if reason, top := neverLands(c.Path); reason != "" {
		s.hold(top, reason)
		return
	}
	if covers(s.masked, c.Path) {
		s.hold(c.Path, HeldMasked)
		return
	}
	if s.under != "" && below(c.Path, s.under) {
		s.hold(s.under, HeldParent)
		return
	}
	if c.Op != overlay.Delete {
		if reason := heldType(c.Type); reason != "" {
			s.hold(c.Path, reason)
			s.under = c.Path
			return
		}
	}
	s.strip(&c)
	if c.Op == overlay.Same {
		return
	}
	s.items = append(s.items, Item{Change: c})
}

// strip takes off what never lands of an entry that does.
func (s *sieve) strip(c *overlay.Change) {
	for _, name := range c.Others {
		s.held = append(s.held, Held{Path: c.Path, Reason: HeldXattr, Detail: name, Count: 1})
	}
	c.Others = nil
	if c.Op == overlay.Delete || c.Type == overlay.Symlink {
		return
	}
	set := c.Mode & setIDBits // what the session put on, or took off
	if c.Op == overlay.Mode || c.Op == overlay.Attr || c.Op == overlay.Same {
		set = (c.Mode ^ c.WasMode) & setIDBits
	} else if c.Type == overlay.Dir {
		set = 0 // a new directory takes after the one it is in
	}
	if set != 0 {
		s.held = append(s.held, Held{Path: c.Path, Reason: HeldSetID, Count: 1})
	}
	c.Mode &= permBits
	if c.Op == overlay.Mode && c.Mode == c.WasMode&permBits {
		c.Op = overlay.Same
	}
	if c.Op == overlay.Attr && c.Type == overlay.Dir {
		s.held = append(s.held, Held{Path: c.Path, Reason: HeldXattr, Detail: "user.*", Count: 1})
		c.Op = overlay.Same
	}
}
