package land

import (
	"bytes"
	"maps"

	"github.com/sbxd/sbxd/overlay"
)

// verdict is what becomes of one path.
type verdict uint8

const (
	keep    verdict = iota // the project's side stays
	take                   // the session's side is taken
	already                // both sides have the same
	clash                  // a conflict
)

// sides are the three states of one path; nil means that nothing is there.
type sides struct{ base, now, session *Node }

// agree reports whether project and session have the same at a path. Attributes
// of a directory do not land, so they are not compared.
func (s sides) agree() bool {
	t, o := s.now, s.session
	if t == nil || o == nil {
		return t == nil && o == nil
	}
	if !samePerm(t, o) || !sameBytes(t, o) {
		return false
	}
	return o.Type != overlay.File || sameXattrs(t, o)
}

// sameXattrs compares the user.* attributes; those of the project may be unknown.
func sameXattrs(t, o *Node) bool {
	return t.Xattrs == nil || maps.EqualFunc(t.Xattrs, o.Xattrs, bytes.Equal)
}

// hostKept reports whether the project has at a path what the base has: certain,
// or it is false.
func (s sides) hostKept() bool {
	b, t := s.base, s.now
	if b == nil || t == nil {
		return b == nil && t == nil
	}
	if b.Type != t.Type || b.Mount != t.Mount {
		return false
	}
	if b.Type == overlay.Dir {
		return b.Mode == t.Mode
	}
	if b.Unsure {
		return false
	}
	switch b.Type {
	case overlay.Symlink:
		return b.Target == t.Target
	case overlay.File:
		return sameStamp(b, t) || (b.Mode == t.Mode && sameBytes(b, t))
	default:
		return b.Ino == t.Ino && b.Mode == t.Mode
	}
}

// combine settles a file where one side changed the mode only and the other the
// bytes only. It returns the mode that both want, and whether the session's bytes
// are taken.
func (s sides) combine(op overlay.Op) (mode uint32, bytes, ok bool) {
	b, t, o := s.base, s.now, s.session
	if b == nil || t == nil || o == nil || b.Unsure ||
		b.Type != overlay.File || t.Type != overlay.File || o.Type != overlay.File {
		return 0, false, false
	}
	switch {
	case op == overlay.Mode && b.Mode == t.Mode:
		return o.Mode, false, true
	case op == overlay.Modify && o.Mode == b.Mode&permBits && sameBytes(b, t):
		return t.Mode & permBits, true, true
	}
	return 0, false, false
}

// why names the conflict of a path that both sides changed.
func (s sides) why() (kind, what string) {
	b, t, o := s.base, s.now, s.session
	switch {
	case o == nil && t.Type == overlay.Dir:
		return ConflictDelete, "the session removed this directory, the host changed it"
	case o == nil:
		return ConflictDelete, "the session removed it, the host changed it"
	case t == nil:
		return ConflictEdit, "the host removed it, the session changed it"
	case b == nil:
		return ConflictAdd, "host and session both made it, differently"
	case t.Type != o.Type || b.Type != t.Type:
		return ConflictType, "one side made it a " + other(b, t, o).String() + ", the other changed it too"
	case t.Type == overlay.Dir:
		return ConflictMode, "both sides changed its mode, differently"
	case b.Unsure && sameStamp(b, t):
		return ConflictStartEdit, "the host may have changed it just when the session began"
	case !samePerm(t, o) && sameBytes(t, o):
		return ConflictMode, "both sides changed its mode, differently"
	default:
		return ConflictContent, "host and session both changed it"
	}
}

// other returns the type that one side changed a path to.
func other(b, t, o *Node) overlay.Type {
	if t.Type != b.Type {
		return t.Type
	}
	return o.Type
}
