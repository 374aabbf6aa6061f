package land

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/sbxd/sbxd/overlay"
)

const (
	// textLimit is the largest file that is shown line by line, in bytes.
	textLimit = 512 << 10
	// lineLimit bounds its lines: the comparison's cost grows faster than they do.
	lineLimit = 20_000
	// contextLines is how many unchanged lines are shown around a change.
	contextLines = 3
)

// side is one side of a file in a unified diff.
type side struct {
	there bool
	typ   overlay.Type
	mode  uint32
	text  []byte
	large bool // text was not read
}

// gitMode is the mode that git shows for an entry.
func (s side) gitMode() string {
	switch {
	case s.typ == overlay.Symlink:
		return "120000"
	case s.mode&0o111 != 0:
		return "100755"
	default:
		return "100644"
	}
}

// binary reports whether a file is not shown as text, as git decides it (a NUL in
// the first 8,000 bytes), or cannot be shown as lines.
func (s side) binary() bool {
	return bytes.IndexByte(s.text[:min(len(s.text), 8000)], 0) >= 0 || !utf8.Valid(s.text) ||
		bytes.Count(s.text, []byte{'\n'}) > lineLimit
}

// unified returns the diff of one path in git's format. note is put after the
// names, for a reader.
func unified(path string, old, now side, note string) string {
	var b strings.Builder
	a, z := gitName("a/"+path), gitName("b/"+path)
	fmt.Fprintf(&b, "diff --git %s %s\n", a, z)
	switch {
	case !old.there:
		fmt.Fprintf(&b, "new file mode %s\n", now.gitMode())
		a = "/dev/null"
	case !now.there:
		fmt.Fprintf(&b, "deleted file mode %s\n", old.gitMode())
		z = "/dev/null"
	case old.gitMode() != now.gitMode():
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", old.gitMode(), now.gitMode())
	case old.mode != now.mode:
		fmt.Fprintf(&b, "# mode %o -> %o\n", old.mode, now.mode)
	}
	if note != "" {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	switch {
	case old.large || now.large:
		fmt.Fprintf(&b, "# too large to show\nBinary files %s and %s differ\n", a, z)
	case bytes.Equal(old.text, now.text):
	case old.binary() || now.binary():
		fmt.Fprintf(&b, "Binary files %s and %s differ\n", a, z)
	default:
		b.WriteString(hunks(a, z, string(old.text), string(now.text)))
	}
	return b.String()
}

func hunks(a, z, old, now string) string {
	text, err := udiff.ToUnified(a, z, old, udiff.Lines(old, now), contextLines)
	if err != nil {
		return fmt.Sprintf("# cannot be shown: %v\n", err)
	}
	return text
}

// gitName quotes a name as git does.
func gitName(name string) string {
	if q := Quote(name); q != name {
		return q
	}
	return name
}
