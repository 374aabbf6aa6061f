package overlaytest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// Tree is what a directory holds, by path, each entry as one line of text with
// all that a view keeps: type, mode, size, digest, link target, user attributes.
type Tree map[string]string

// ReadTree reads the tree below dir; deeper than any path may be long is fine. A
// name that is listed and cannot be found is an error.
func ReadTree(dir string) (Tree, error) { return readTree(dir, false) }

func readTree(dir string, lost bool) (Tree, error) {
	d, err := safefs.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	out := Tree{}
	return out, out.read(d, "", lost)
}

// read adds what d holds; lost leaves out names that cannot be found.
func (t Tree) read(d *safefs.Dir, prefix string, lost bool) error {
	entries, err := d.ReadDir("")
	if err != nil {
		return err
	}
	for _, e := range entries {
		line, err := describe(d, e.Name)
		if lost && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s%s: %w", prefix, e.Name, err)
		}
		t[prefix+e.Name] = line
		if !e.IsDir() {
			continue
		}
		sub, err := d.Sub(e.Name)
		if err != nil {
			return err
		}
		err = t.read(sub, prefix+e.Name+"/", lost)
		_ = sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func describe(d *safefs.Dir, name string) (string, error) {
	st, err := d.Lstat(name)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%06o", st.Mode)
	switch {
	case st.IsRegular():
		sum, err := digest(d, name)
		if err != nil {
			return "", err
		}
		line += fmt.Sprintf(" size %d %x", st.Size, sum[:6])
	case st.IsSymlink():
		target, err := d.Readlink(name)
		return line + fmt.Sprintf(" -> %q", target), err
	case !st.IsDir():
		return line + fmt.Sprintf(" dev %x", st.Rdev), nil
	}
	attrs, err := userAttrs(d, name)
	if err != nil {
		return "", err
	}
	for _, n := range slices.Sorted(maps.Keys(attrs)) {
		line += fmt.Sprintf(" %s=%q", n, attrs[n])
	}
	return line, nil
}

// userAttrs leaves out what overlays use or escape.
func userAttrs(d *safefs.Dir, name string) (map[string][]byte, error) {
	names, err := d.Listxattr(name)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, n := range names {
		if !strings.HasPrefix(n, "user.") || strings.HasPrefix(n, "user.overlay.") || strings.HasPrefix(n, "user.fuseoverlayfs.") {
			continue
		}
		if out[n], err = d.Getxattr(name, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func digest(d *safefs.Dir, name string) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	f, err := d.Open(name, unix.O_RDONLY, 0)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

// Diff lists up to ten differences from t to o, or returns "".
func (t Tree) Diff(o Tree) string {
	var out []string
	all := maps.Clone(t)
	maps.Copy(all, o)
	for _, p := range slices.SortedFunc(maps.Keys(all), overlay.ComparePaths) {
		a, inT := t[p]
		b, inO := o[p]
		switch {
		case inT && inO && a == b:
		case !inO:
			out = append(out, fmt.Sprintf("- %.200q %s", p, a))
		case !inT:
			out = append(out, fmt.Sprintf("+ %.200q %s", p, b))
		default:
			out = append(out, fmt.Sprintf("~ %.200q %s | %s", p, a, b))
		}
		if len(out) == 10 {
			break
		}
	}
	return strings.Join(out, "\n")
}
