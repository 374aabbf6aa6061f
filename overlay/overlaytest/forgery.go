package overlaytest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// forgery tests, from the attacker's side, that no mark of an overlay can be made
// through a view.
func (s *suite) forgery(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *view){
		"devices":                     forgeDevices,
		"marks of our format":         forgeMarks,
		"marks of other formats":      forgeForeign,
		"a directory becomes a link":  forgeLink,
		"marks cannot be seen either": noMarksSeen,
	} {
		t.Run(name, func(t *testing.T) {
			v := s.newView(t, func(lower string) error {
				return script(lower, `mkdir -p d/s; echo secret >d/secret; echo 2 >d/s/two; touch empty; echo f >f`)
			})
			f(t, v)
			v.consistent(nil)
		})
	}
}

func forgeDevices(_ *testing.T, v *view) {
	v.agent(func() error {
		var err error
		for _, n := range []string{"new", "f"} {
			p := v.P + "/" + n
			_ = os.Remove(p)
			err = errors.Join(err,
				fails("mknod c 0:0 "+n, unix.Mknod(p, unix.S_IFCHR|0o666, 0), unix.EPERM),
				fails("mknod c 1:3 "+n, unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), unix.EPERM),
				fails("mknod b 8:0 "+n, unix.Mknod(p, unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))), unix.EPERM))
		}
		return err
	})
	if got := list(v.changes(overlay.Options{})); got != "delete f file (was file) 644\n" {
		v.t.Errorf("changes:\n%s", got)
	}
}

// forged are marks that would delete, hide, move or fake something.
var forged = map[string]string{
	"opaque": "y", "whiteout": "", "redirect": "/f", "metacopy": "", "origin": "\x00\xfb", "impure": "y",
	"nlink": "U+0", "protattr": "i", "upper": "x", "uuid": "0123456789abcdef", "overlay.opaque": "y", "": "",
}

func forgeMarks(_ *testing.T, v *view) {
	v.check(asAgent(func() error { return script(v.P, `mkdir new; touch new/file; ln -s f link`) }))
	before := v.tree(v.P)
	paths := []string{"d", "d/s", "d/secret", "empty", "f", "new", "new/file", "."}
	stored := false
	v.agent(func() error {
		for key, value := range forged {
			for _, p := range paths {
				err := unix.Lsetxattr(v.P+"/"+p, "user.overlay."+key, []byte(value), 0)
				stored = stored || err == nil
				_ = unix.Lsetxattr(v.P+"/"+p, "user.overlay."+key, []byte("x"), unix.XATTR_REPLACE)
				_ = unix.Lsetxattr(v.P+"/"+p, "user.overlay."+key, []byte(value), 0)
			}
			err := unix.Lsetxattr(v.P+"/d", "trusted.overlay."+key, []byte(value), 0)
			if err == nil {
				return fmt.Errorf("trusted.overlay.%s was stored", key)
			}
		}
		return nil
	})
	v.check(noRawMarks(v.upper))
	v.remount()
	if diff := before.Diff(v.tree(v.P)); diff != "" {
		v.t.Errorf("forged marks changed the view:\n%s", diff)
	}
	set := v.changes(overlay.Options{})
	if got := list(set); got != "add link symlink (was none) 777\nadd new dir (was none) 755\nadd new/file file (was none) 644\n" {
		v.t.Errorf("changes:\n%s", got)
	}
	escaped := slices.ContainsFunc(set.Forged, func(m overlay.Mark) bool { return m.What == overlay.MarkEscaped && m.Path == "d" })
	if escaped != stored {
		v.t.Errorf("marks were stored: %v; reported: %v", stored, set.Forged)
	}
}

// noRawMarks looks for marks in an upper that none of our operations makes.
func noRawMarks(upper string) error {
	return filepath.WalkDir(upper, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		b := make([]byte, 4096)
		n, err := unix.Llistxattr(p, b)
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(string(b[:n]), "\x00") {
			key, ok := strings.CutPrefix(name, "user.overlay.")
			if ok && !strings.HasPrefix(key, "overlay.") && !slices.Contains([]string{"origin", "impure", "uuid"}, key) {
				return fmt.Errorf("%s carries %s", p, name)
			}
		}
		return nil
	})
}

func forgeForeign(_ *testing.T, v *view) {
	before := v.tree(v.P)
	names := []string{"user.fuseoverlayfs.opaque", "user.fuseoverlayfs.origin", "user.containers.override_stat"}
	v.agent(func() error {
		var err error
		for _, n := range names {
			err = errors.Join(err, unix.Setxattr(v.P+"/d", n, []byte("y"), 0), unix.Setxattr(v.P+"/empty", n, []byte("y"), 0))
		}
		return err
	})
	v.remount()
	if got := v.tree(v.P); len(got) != len(before) {
		v.t.Errorf("marks of other formats changed the view:\n%s", before.Diff(got))
	}
	set := v.changes(overlay.Options{KeepSame: true})
	for _, c := range set.Changes {
		for n := range c.Xattrs {
			if slices.Contains(names, n) {
				v.t.Errorf("%s is among the attributes of %s", n, c.Path)
			}
		}
	}
	if len(set.Forged) != 2*len(names) {
		v.t.Errorf("reported %v, want %d marks", set.Forged, 2*len(names))
	}
	v.agent(func() error {
		for _, n := range names {
			_ = unix.Removexattr(v.P+"/d", n)
			_ = unix.Removexattr(v.P+"/empty", n)
		}
		return nil
	})
}

func forgeLink(_ *testing.T, v *view) {
	v.agent(func() error { return script(v.P, `rm -r d; ln -s /etc d; test -e d/passwd`) })
	got := list(v.changes(overlay.Options{}))
	if got != "modify d symlink (was dir) 777\ndelete d/s dir (was dir) 755\ndelete d/s/two file (was file) 644\ndelete d/secret file (was file) 644\n" {
		v.t.Errorf("changes:\n%s", got)
	}
}

func noMarksSeen(_ *testing.T, v *view) {
	v.agent(func() error {
		err := script(v.P, `echo x >>f; echo x >>d/secret; rm -r d/s; mkdir d/s`)
		for _, p := range []string{"f", "d", "d/s", "d/secret"} {
			b := make([]byte, 4096)
			n, e := unix.Llistxattr(v.P+"/"+p, b)
			err = errors.Join(err, e, want("attributes of "+p, string(b[:max(n, 0)]), ""))
			_, e = unix.Lgetxattr(v.P+"/"+p, "user.overlay.opaque", b)
			err = errors.Join(err, fails("read the opaque mark of "+p, e, unix.ENODATA, unix.EPERM, unix.EOPNOTSUPP))
		}
		return err
	})
}
