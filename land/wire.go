package land

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/overlay"
)

// Kinds of findings (api.Finding.Kind).
const (
	findingConflict = "conflict"
	findingNotice   = "notice"
	findingForged   = "forged"
)

// finding makes a finding whose id is the same for the same thing.
func finding(kind, rule, path, what string) api.Finding {
	sum := sha256.Sum256([]byte(kind + "\x00" + rule + "\x00" + path))
	return api.Finding{ID: hex.EncodeToString(sum[:6]), Kind: kind, Path: Quote(path), Rule: rule, What: what}
}

// API returns a changeset as the API shows it. Text is left empty.
func (cs *Changeset) API(sessionID string) api.Diff {
	sortHeld(cs.Held)
	d := api.Diff{Session: sessionID, Changes: []api.Change{}}
	if cs.Plan != nil {
		d.ID = cs.ID
		d.Findings = Findings(cs.Plan)
	}
	for i := range cs.Items {
		d.Changes = append(d.Changes, cs.Items[i].api())
	}
	d.Dropped, d.Findings = heldAPI(cs.Held, d.Findings)
	return d
}

// heldAPI returns what does not land; forged marks are findings.
func heldAPI(held []Held, findings []api.Finding) ([]api.Change, []api.Finding) {
	var out []api.Change
	for _, h := range held {
		if h.Reason == HeldForged {
			findings = append(findings, finding(findingForged, h.Detail, h.Path, h.Explain()))
			continue
		}
		c := named(h.Path)
		c.Note = h.Explain()
		out = append(out, c)
	}
	return out, findings
}

// Findings returns what a reviewer of a plan has to look at.
func Findings(p *Plan) []api.Finding {
	var out []api.Finding
	for _, c := range p.Conflicts {
		out = append(out, finding(findingConflict, c.Kind, c.Path, c.What))
	}
	for _, n := range p.Notices {
		out = append(out, finding(findingNotice, n.Kind, n.Path, n.What))
	}
	return out
}

// named makes a change with a path and nothing else. A path that is not UTF-8 is
// given twice: to be shown, and as bytes.
func named(path string) api.Change {
	if utf8.ValidString(path) {
		return api.Change{Path: path}
	}
	return api.Change{Path: strings.ToValidUTF8(path, "\ufffd"), PathB64: []byte(path)}
}

func (it *Item) api() api.Change {
	c := named(it.Path)
	c.Op, c.Type, c.Size = it.Op.String(), it.Type.String(), sizeOf(it)
	if it.Op == overlay.Attr {
		c.Op = overlay.Modify.String()
	}
	if it.Op != overlay.Delete && it.Type != overlay.Symlink {
		c.Mode = octal(it.Mode)
	}
	if it.Was != overlay.None && it.Was != overlay.Symlink {
		c.OldMode = octal(it.WasMode & permBits)
	}
	if it.Op != overlay.Delete {
		c.Target = strings.ToValidUTF8(it.Target, "\ufffd")
	}
	if it.From != "" {
		c.Op = "rename"
	}
	if from := it.From + it.Hint; from != "" {
		c.From = strings.ToValidUTF8(from, "\ufffd")
	}
	return c
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// API returns a landing as the API shows it. lands is the directory of landings.
func (r *Record) API(lands string) api.Landing {
	l := api.Landing{
		ID: r.ID, Session: r.Session, Project: r.Project, Changeset: r.Changeset, State: r.State,
		Time: r.Time, Undoes: r.Undoes, UndoneBy: r.UndoneBy, Counts: api.Counts(r.Counts),
	}
	if r.UndoneBy != "" {
		l.State = "undone"
	}
	for _, p := range r.Left {
		l.Left = append(l.Left, Quote(p)+" (what was there before is in "+r.Objects(lands)+")")
	}
	return l
}

// StepsAPI lists the paths of steps as changes.
func StepsAPI(ops []Op) []api.Change {
	var out []api.Change
	for i := range ops {
		op := &ops[i]
		for _, n := range op.Old {
			if op.Kind == Remove || (op.Kind == Replace && n.Path != op.Path) {
				c := named(n.Path)
				c.Op, c.Type, c.Size, c.OldMode = overlay.Delete.String(), n.Type.String(), n.Size, octal(n.Mode&permBits)
				out = append(out, c)
			}
		}
		for j, n := range op.New {
			if op.Kind == Settle {
				continue
			}
			c := named(n.Path)
			c.Op, c.Type, c.Size, c.Mode, c.Target = overlay.Add.String(), n.Type.String(), n.Size, octal(n.Mode&permBits), strings.ToValidUTF8(n.Target, "\ufffd")
			switch {
			case op.Kind == Chmod:
				c.Op, c.OldMode = overlay.Mode.String(), octal(op.Old[0].Mode&permBits)
			case op.Kind == Replace && j == 0:
				c.Op, c.OldMode = overlay.Modify.String(), octal(op.Old[0].Mode&permBits)
			}
			out = append(out, c)
		}
	}
	return out
}
