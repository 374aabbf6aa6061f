package land

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbxd/sbxd/internal/glob"
)

// Options names what is compared and where landings are kept. Paths are absolute
// and canonical. The process runs as the user who owns them; files that the
// session left unreadable for that user need a user namespace with
// CAP_DAC_OVERRIDE.
type Options struct {
	Project string `json:"project"`
	Upper   string `json:"upper"`          // what the session wrote
	Base    string `json:"base,omitempty"` // directory of the session's base; empty for a HOME
	Lands   string `json:"lands"`          // directory of this user's landings
	Session string `json:"session,omitempty"`
	UID     int    `json:"uid"`
	Who     string `json:"who,omitempty"` // the socket that the request came on

	// Masked are paths below Project that credential masks cover; Placeholders
	// exist in the view for a mask's sake only.
	Masked       []string `json:"masked,omitempty"`
	Patterns     []string `json:"patterns,omitempty"` // of names below Project that are masked
	Placeholders []string `json:"placeholders,omitempty"`

	// Wait bounds how long a landing of the same project by somebody else is
	// waited for; 0 is not at all.
	Wait time.Duration `json:"wait,omitempty"`
	// Hints looks for renames, which costs reading.
	Hints bool `json:"hints,omitempty"`

	// Pause stops the session while its files are read; resume lets it go on. Nil:
	// the session is stopped, or may change under the reader, which is then told.
	Pause func() (resume func(), err error) `json:"-"`
	// Agree is asked before anything of the project is touched; an error keeps the
	// changeset from being landed and is returned as it is. Nil: all is agreed to.
	Agree func(*Changeset) error `json:"-"`
}

// check refuses options that cannot be meant.
func (o *Options) check() error {
	for _, p := range []string{o.Project, o.Upper, o.Lands} {
		if !filepath.IsAbs(p) {
			return errors.New("land: project, upper and lands are absolute paths")
		}
	}
	if o.Base != "" && !filepath.IsAbs(o.Base) {
		return errors.New("land: the base is an absolute path")
	}
	return nil
}

// hidden tells which paths Patterns hide; nil: none.
func (o *Options) hidden() (func(path string) bool, error) {
	all, err := glob.ParseAll(o.Patterns)
	if err != nil {
		return nil, fmt.Errorf("land: mask: %w", err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return func(path string) bool {
		names := strings.Split(path, "/")
		return slices.ContainsFunc(all, func(p glob.Pattern) bool { return p.Matches(names...) })
	}, nil
}

// masked are all paths that the decoder leaves out.
func (o *Options) masked() []string {
	if o.Base == "" {
		return o.Masked
	}
	return append([]string{stateDir}, o.Masked...)
}
