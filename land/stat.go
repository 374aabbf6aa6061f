package land

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/overlay"
)

// WriteStat writes one line for each path of a changeset, for a person. limit
// bounds the additions and edits that are listed (0: all). Deletions, changes of
// type and mode, conflicts and what does not land are never left out, and come
// first.
func WriteStat(w io.Writer, cs *Changeset, limit int) error {
	p := &printer{w: w}
	var rest []*Item
	for i := range cs.Items {
		it := &cs.Items[i]
		switch {
		case it.Op == overlay.Delete:
			p.line("D", it, "")
		case it.Op != overlay.Add && it.Type != it.Was:
			p.line("T", it, it.Was.String()+" -> "+it.Type.String())
		case it.Op == overlay.Mode || it.Op == overlay.Attr:
			p.line("M", it, mode(it))
		default:
			rest = append(rest, it)
		}
	}
	if cs.Plan != nil {
		for _, c := range cs.Plan.Conflicts {
			p.printf("C  %s  %s: %s\n", Quote(c.Path), c.Kind, Printable(c.What))
		}
		for _, n := range cs.Plan.Notices {
			p.printf("!  %s  %s: %s\n", Quote(n.Path), n.Kind, Printable(n.What))
		}
	}
	for _, h := range cs.Held {
		p.printf("-  %s  %s\n", Quote(h.Path), h.Explain())
	}
	for i, it := range rest {
		if limit > 0 && i == limit {
			p.printf("   and %d more additions and edits\n", len(rest)-limit)
			break
		}
		letter := "A"
		if it.Op != overlay.Add {
			letter = "M"
		}
		p.line(letter, it, mode(it))
	}
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) line(letter string, it *Item, what string) {
	path := Quote(it.Path)
	if it.Type == overlay.Dir {
		path += "/"
	}
	if from := it.From + it.Hint; from != "" {
		what = strings.TrimSpace("from " + Quote(from) + " " + what)
	}
	if it.Op != overlay.Delete && it.Type == overlay.Symlink {
		what = strings.TrimSpace("-> " + Quote(it.Target) + " " + what)
	}
	if what != "" {
		what = "  " + what
	}
	p.printf("%s  %s%s\n", letter, path, what)
}

// mode tells a change of mode, "" if there is none.
func mode(it *Item) string {
	if it.Op == overlay.Add || it.Type == overlay.Symlink || it.Was != it.Type || it.Mode&permBits == it.WasMode&permBits {
		return ""
	}
	return fmt.Sprintf("mode %o -> %o", it.WasMode&permBits, it.Mode&permBits)
}

// explanations say why something does not land.
var explanations = map[string]string{
	HeldDevice: "a device never lands",
	HeldFIFO:   "a FIFO does not land",
	HeldForged: "looks like a mark of an overlay, and was not obeyed:",
	HeldGit:    "git's own files do not land: the host's git would run what is in them",
	HeldInside: "the directory stays, since it holds what does not land:",
	HeldMasked: "masked, so it does not land",
	HeldOwn:    "sbxd's own directory",
	HeldParent: "removed below something that does not land",
	HeldPolicy: "a session does not write its own rules",
	HeldSetID:  "set-user-id and set-group-id bits do not land",
	HeldSocket: "a socket does not land",
	HeldXattr:  "this attribute does not land:",
}

// Explain tells in a few words why something is held.
func (h Held) Explain() string {
	out := explanations[h.Reason]
	if out == "" {
		out = h.Reason
	}
	if h.Detail != "" {
		out += " " + Printable(h.Detail)
	}
	if h.Count > 1 {
		out += fmt.Sprintf(" (%d entries)", h.Count)
	}
	return out
}

// sortHeld orders what is held for output that is stable across runs.
func sortHeld(held []Held) {
	slices.SortStableFunc(held, func(a, b Held) int { return overlay.ComparePaths(a.Path, b.Path) })
}
