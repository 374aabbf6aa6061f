package overlaytest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// oddNames are hard to quote, long, or mean something to somebody. They are used
// as names of layers too: options are split at some of these bytes.
func oddNames() []string {
	names := []string{
		"-rf", " lead trail ", "a\nb", "a:b", "a,b", `a\b`, `a\:b`, "\"'`$x", "\xff\xfe", "ü", "u\u0308", "%s%n",
		"#file", "user.overlay.opaque", ".wh.x", "lowerdir=x", strings.Repeat("n", 255), strings.Repeat("\xf0", 255),
	}
	var all strings.Builder
	for b := 1; b < 256; b++ {
		if b != '/' {
			all.WriteByte(byte(b))
		}
	}
	return append(names, all.String()[:128], all.String()[127:])
}

// names tests that a name is any bytes, and a path of any length.
func (s *suite) names(t *testing.T) {
	t.Run("any bytes", func(t *testing.T) {
		fill := func(dir, text string) error {
			var err error
			for _, n := range oddNames() {
				err = errors.Join(err, os.WriteFile(dir+"/"+n, []byte(text), 0o600))
			}
			return err
		}
		v := s.newView(t, func(lower string) error {
			return errors.Join(fill(lower, "old"), os.Mkdir(lower+"/kept", 0o755), fill(lower+"/kept", "kept"))
		})
		v.agent(func() error {
			err := errors.Join(os.Mkdir(v.P+"/new", 0o755), fill(v.P+"/new", "new"), fill(v.P, "changed"))
			for _, n := range oddNames() {
				err = errors.Join(err, os.Remove(v.P+"/kept/"+n))
			}
			return err
		})
		v.consistent(nil)
		set := v.changes(overlay.Options{})
		if got, want := len(set.Changes), 3*len(oddNames())+1; got != want {
			t.Errorf("%d changes, want %d", got, want)
		}
	})
	t.Run("B001 layers with any name", func(t *testing.T) {
		for _, n := range oddNames() {
			layersNamed(t, s, n)
		}
	})
	t.Run("B004 long and deep", func(t *testing.T) { s.deep(t) })
}

// layersNamed mounts a view whose four layers and mountpoint have the name n.
func layersNamed(t *testing.T, s *suite, n string) {
	t.Helper()
	v := &view{t: t, backend: s.backend}
	for _, d := range []struct {
		path *string
		in   string
	}{{&v.lower, "l"}, {&v.pins, "k"}, {&v.upper, "u"}, {&v.work, "w"}, {&v.P, "p"}} {
		*d.path = s.dir(t) + "/" + n
		v.check(os.Mkdir(*d.path, 0o755))
	}
	if short, _, cut := strings.Cut(n, ":"); cut && short != "" {
		v.check(os.Mkdir(strings.TrimSuffix(v.lower, n)+short, 0o755)) // must not be taken for it
	}
	v.check(os.WriteFile(v.lower+"/who", []byte("right"), 0o644))
	v.mount()
	v.agent(func() error {
		return errors.Join(content(v.P+"/who", "right"), os.WriteFile(v.P+"/added", nil, 0o600))
	})
	v.unmount()
	if _, err := os.Lstat(v.upper + "/added"); err != nil {
		t.Errorf("layers named %q: %v", n, err)
	}
}

// deep works in a project whose own path has 1,600 bytes, on paths below it that
// no system call takes whole.
func (s *suite) deep(t *testing.T) {
	long := "/" + strings.Repeat("n", 200)
	base := s.dir(t) + strings.Repeat(long, 8)
	v := &view{
		t: t, backend: s.backend, dir: base, frozen: true,
		P: base + "/p", lower: base + "/l", pins: base + "/k", upper: base + "/u", work: base + "/w",
	}
	for _, d := range []string{v.P, v.lower, v.pins, v.upper, v.work} {
		v.check(os.MkdirAll(d, 0o755))
	}
	const levels = 560
	path := strings.TrimSuffix(strings.Repeat("deepdir/", levels), "/") // 4,480 bytes
	v.check(asAgent(func() error { return grow(v.lower, path, "old") }))
	v.before = v.tree(v.lower)
	v.mount()
	defer v.finish()
	v.agent(func() error {
		err := grow(v.P, path, "changed")
		return errors.Join(err, grow(v.P, "new/"+path, "new"))
	})
	seen := v.tree(v.P)
	v.remount()
	if diff := seen.Diff(v.tree(v.P)); diff != "" {
		t.Errorf("after a remount:\n%s", diff)
	}
	set := v.changes(overlay.Options{})
	if got, want := len(set.Changes), 1+1+levels+1; got != want {
		t.Errorf("%d changes, want %d", got, want)
	}
	if _, err := decode(v.upper, v.lower, overlay.Options{MaxDepth: 100}); !errors.Is(err, overlay.ErrTooDeep) {
		t.Errorf("decode with MaxDepth 100: %v, want ErrTooDeep", err)
	}
	v.agent(func() error { return os.RemoveAll(v.P + "/new") })
}

// grow makes the directories of path below dir and writes text to a file there.
func grow(dir, path, text string) error {
	d, err := safefs.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.MkdirAll(path, 0o755); err != nil {
		return err
	}
	f, err := d.Open(path+"/leaf", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("make a leaf: %w", err)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
