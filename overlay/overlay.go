// Package overlay knows copy-on-write views: how one is described (Spec), what
// mounts it (Backend), and what its upper directory says was changed (Changes).
//
// The one idea: every backend writes one upper format, and one decoder reads
// it. Everything in an upper was made by an agent, so the decoder reads it by
// directory descriptors, follows no link, opens nothing that is not a regular
// file, and believes only the marks that an agent cannot make.
//
// It must not know sessions, masks, projects or landings: paths are relative to
// the root of a view, and the caller says what to leave out.
package overlay

import (
	"errors"
	"fmt"
	"os"
)

// Spec describes one view. All descriptors are directories opened in the mount
// namespace that the view is mounted from; the caller keeps and closes them.
type Spec struct {
	// Lowers are the read-only trees below the view, topmost first. The usual
	// second one is the directory of placeholders that masks are mounted on.
	Lowers []*os.File
	// Upper receives what is changed; Work is its scratch directory, empty, on
	// the same file system, and used by nothing else. Both nil: the view is
	// read-only, of two lowers at least.
	Upper, Work *os.File
	// Source is what mount tables show in their first column; "" means "sbxd".
	Source string
}

// Validate reports what is missing from s.
func (s Spec) Validate() error {
	switch {
	case len(s.Lowers) == 0:
		return errors.New("check view: no lower directory")
	case len(s.Lowers) > MaxLowers:
		return fmt.Errorf("check view: %d lower directories, at most %d", len(s.Lowers), MaxLowers)
	case (s.Upper == nil) != (s.Work == nil):
		return errors.New("check view: an upper directory needs a work directory, and the reverse")
	case s.Upper == nil && len(s.Lowers) < 2:
		return errors.New("check view: a read-only view needs two lower directories")
	}
	for _, l := range s.Lowers {
		if l == nil {
			return errors.New("check view: a lower directory is nil")
		}
	}
	return nil
}

// MaxLowers bounds the layers of one view. Two are used (the real tree and the
// placeholders); the kernel's own bound is 500.
const MaxLowers = 16

// Backend mounts views.
type Backend interface {
	// Name is the name that configuration and records use.
	Name() string
	// Probe tries the backend with an upper below dir and returns nil or a
	// *ProbeError that says what to do.
	Probe(dir string) error
	// Mount returns the view as a detached mount, an O_PATH descriptor that
	// the caller attaches with move_mount(2) and closes.
	Mount(Spec) (*os.File, error)
}

// MountError is a step of mounting a view that the kernel refused.
type MountError struct {
	Op     string // the step: "fsopen", "set lowerdir", "create", "fsmount"
	Source string // what was given: a layer's path as the kernel names it
	Target string // which part of the view: "lower 0", "upper", "work"
	Detail string // the kernel's own words, if it gave any
	Err    error
}

func (e *MountError) Error() string {
	msg := "mount overlay: " + e.Op
	if e.Target != "" {
		msg += " " + e.Target
	}
	if e.Source != "" {
		msg += fmt.Sprintf(" (%q)", e.Source)
	}
	msg += ": " + e.Err.Error()
	if e.Detail != "" {
		msg += ": " + e.Detail
	}
	return msg
}

func (e *MountError) Unwrap() error { return e.Err }

// ProbeError says that a backend does not work here, at which step, and what
// can be done about it.
type ProbeError struct {
	Step   string // "user namespace", "mount", "whiteout", …
	Remedy string // one line for a person
	Err    error
}

func (e *ProbeError) Error() string {
	msg := "probe overlay: " + e.Step + ": " + e.Err.Error()
	if e.Remedy != "" {
		msg += "; " + e.Remedy
	}
	return msg
}

func (e *ProbeError) Unwrap() error { return e.Err }
