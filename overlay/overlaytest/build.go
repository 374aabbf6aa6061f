package overlaytest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sbxd/sbxd/overlay"
)

// Build adds to dir what lines of the form "kind path [text]" say: f file, d
// directory, l link, p FIFO, w whiteout, h hard link, x attribute (name=value of
// an existing path), m mode 0600. A layer can be made so without a mount.
func Build(dir string, lines ...string) error {
	for _, line := range lines {
		if err := buildOne(dir, line); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	return nil
}

func buildOne(dir, line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	path, text, _ := strings.Cut(rest, " ")
	full := dir + "/" + path
	switch kind {
	case "f":
		f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) // a FIFO there would block
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	case "d":
		return os.Mkdir(full, 0o755)
	case "l":
		return os.Symlink(text, full)
	case "p":
		return unix.Mkfifo(full, 0o644)
	case "w":
		return unix.Mknod(full, unix.S_IFCHR, 0)
	case "x":
		name, value, _ := strings.Cut(text, "=")
		return unix.Lsetxattr(full, name, []byte(value), 0)
	case "h":
		return os.Link(dir+"/"+text, full)
	case "m":
		return os.Chmod(full, 0o600)
	}
	return errors.ErrUnsupported
}

// layerPaths are few, so that entries of two layers meet.
var layerPaths = []string{"a", "b", "c", "a/a", "a/b", "b/a", "a/a/a", "a/a/b", ".wh.a", "a/.wh..wh..opq"}

// layerLines are what one byte of BuildBytes makes, in the language of Build.
var layerLines = []string{
	"d %s", "d %s", "d %s", "f %s", "f %s 1", "f %s 2", "l %s a", "l %s /etc", "p %s", "w %s", "w %s",
	"x %s user.overlay.opaque=y", "x %s user.overlay.opaque=x", "x %s user.overlay.opaque=n",
	"x %s user.overlay.overlay.opaque=y", "x %s user.fuseoverlayfs.opaque=y", "x %s user.overlay.origin=",
	"x %s user.k=1", "x %s user.k=2", "h %s a/a", "h %s b",
	"x %s user.overlay.whiteout=y", "x %s user.overlay.redirect=/c", "x %s user.overlay.metacopy=",
}

// lastPlain is how many of layerLines every backend reads alike: the rest is
// refused by the decoder, or read one way by lookup and another by readdir.
const lastPlain = 21

// BuildBytes fills the empty directories base and upper from pairs of bytes: what,
// and where. A base never has marks: a whiteout there is a device of the host's.
func BuildBytes(data []byte, base, upper string) {
	const most = 200
	for i := 0; i+1 < len(data) && i < most; i += 2 {
		line := layerLines[int(data[i])%len(layerLines)]
		where := int(data[i+1])
		path := layerPaths[where/2%len(layerPaths)]
		if where%2 == 0 {
			_ = buildOne(upper, fmt.Sprintf(line, path))
		} else if line[0] != 'w' && !strings.Contains(line, "overlay") {
			_ = buildOne(base, fmt.Sprintf(line, path))
		}
	}
}

// uppers tests that the decoder reads uppers that nobody but a forger would make
// as the backend shows them.
func (s *suite) uppers(t *testing.T) {
	pair := rapid.SliceOfN(rapid.ByteRange(0, 255), 2, 2)
	what := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []byte {
		p := pair.Draw(t, "pair")
		p[0] %= lastPlain
		return p
	}), 1, 60)
	top := memory(t)
	rapid.Check(t, func(rt *rapid.T) {
		var data []byte
		for _, p := range what.Draw(rt, "layers") {
			data = append(data, p...)
		}
		dir, err := os.MkdirTemp(top, "") //nolint:usetesting // in memory
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		v := s.makeView(rt, dir, nil)
		defer v.finish()
		v.unmount()
		v.frozen = false
		BuildBytes(data, v.lower, v.upper)
		before := v.changes(overlay.Options{})
		v.mount()
		// Overlayfs lists a whiteout in a directory that the base does not have.
		seen, err := readTree(v.P, true)
		v.check(err)
		v.addsUp(seen)
		if after := v.changes(overlay.Options{}); list(before) != list(after) {
			rt.Errorf("mounting changed what the upper says:\n%s\n%s", list(before), list(after))
		}
	})
}
