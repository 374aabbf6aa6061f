package land

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// patchLimit bounds the text of a whole diff, in bytes; what follows is counted.
const patchLimit = 8 << 20

// WritePatch writes a unified diff of a changeset, which git apply and patch take:
// deletions first, so that they are seen whatever is cut off. Bytes are those of
// this moment; a session that goes on may have others by then. The output is raw:
// pass it through Printable for a terminal.
func WritePatch(ctx context.Context, w io.Writer, cs *Changeset, o Options) error {
	t, err := openTree(o.Project)
	if err != nil {
		return err
	}
	defer t.close()
	upper, err := safefs.OpenReal(o.Upper)
	if err != nil {
		return fmt.Errorf("open upper of session: %w", err)
	}
	defer upper.Close()
	d := &differ{ctx: ctx, w: w, upper: upper.OneMount(), tree: t}
	for _, removed := range []bool{true, false} {
		for i := range cs.Items {
			if it := &cs.Items[i]; (it.Op == overlay.Delete) == removed {
				if err := d.item(it); err != nil {
					return fmt.Errorf("show %s: %w", Quote(it.Path), err)
				}
			}
		}
	}
	if d.skipped > 0 {
		_, err = fmt.Fprintf(w, "# %d more files are not shown: the diff is larger than %d MiB\n", d.skipped, patchLimit>>20)
	}
	return err
}

type differ struct {
	ctx     context.Context
	w       io.Writer
	upper   *safefs.Dir
	tree    *tree
	written int
	skipped int
}

func (d *differ) item(it *Item) error {
	if it.Type == overlay.Dir && (it.Was == overlay.Dir || it.Was == overlay.None) {
		return nil // git does not know directories
	}
	if d.written > patchLimit {
		d.skipped++
		return nil
	}
	if err := d.ctx.Err(); err != nil {
		return err
	}
	old, err := d.read(d.tree.dir, it.Path, it.Was, it.WasMode)
	if err != nil {
		return err
	}
	var now side
	if it.Op != overlay.Delete {
		if now, err = d.read(d.upper, it.Path, it.Type, it.Mode); err != nil {
			return err
		}
	}
	// A change of type is a deletion and an addition.
	var text string
	switch {
	case old.there && now.there && old.typ != now.typ:
		text = unified(it.Path, old, side{}, "") + unified(it.Path, side{}, now, "")
	case old.there || now.there:
		text = unified(it.Path, old, now, likely(it))
	}
	n, err := io.WriteString(d.w, text)
	d.written += n
	return err
}

func likely(it *Item) string {
	if from := it.From + it.Hint; from != "" {
		return "same bytes as " + Quote(from)
	}
	return ""
}

// read reads one side. What has become another kind of entry, or has gone, is not
// there.
func (d *differ) read(dir *safefs.Dir, path string, want overlay.Type, mode uint32) (side, error) {
	s := side{typ: want, mode: mode & permBits}
	switch want {
	case overlay.Symlink:
		to, err := dir.Readlink(path)
		if err != nil {
			return side{}, ignoreVanished(err)
		}
		s.there, s.text = true, []byte(to)
	case overlay.File:
		f, st, err := openFile(dir, path)
		if err != nil {
			return side{}, ignoreVanished(err)
		}
		defer f.Close()
		if s.there = true; st.Size > textLimit {
			s.large = true
			return s, nil
		}
		s.text, err = io.ReadAll(io.LimitReader(f, textLimit))
		return s, err
	}
	return s, nil
}

func ignoreVanished(err error) error {
	if notHere(err) || gone(err) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
