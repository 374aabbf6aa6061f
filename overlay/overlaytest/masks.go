package overlaytest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// masked are the paths that masks covers, and whether with a directory. The last
// two are only in the layer of placeholders.
var masked = []struct {
	path string
	dir  bool
}{
	{".env", false},
	{".aws", true},
	{"conf/keys/id", false},
	{"link", false},
	{"dangling", false},
	{"a/b/.cred", true},
	{"token", false},
}

// masks tests that a mount over a path of the view hides it for good: nothing
// below the mask, nor a directory that leads to it, can be read, written,
// replaced or moved away.
func (s *suite) masks(t *testing.T) {
	v := s.newView(t, func(lower string) error {
		return script(lower, `mkdir -p .aws conf/keys; echo S3CRET | tee .env .aws/credentials conf/keys/id target >/dev/null
ln -s target link; ln -s nowhere dangling; echo ok >conf/open`)
	})
	v.unmount()
	v.check(script(v.pins, `mkdir -p a/b/.cred; touch token`))
	v.mount()
	cover(v)
	v.agent(func() error {
		return errors.Join(untouchable(v), ancestorsHeld(v), content(v.P+"/target", "S3CRET\n"), content(v.P+"/conf/open", "ok\n"))
	})
	options := overlay.Options{}
	for _, m := range masked {
		options.Masked = append(options.Masked, m.path)
		options.Placeholders = append(options.Placeholders, m.path)
	}
	if got := list(v.changes(options)); got != "" {
		t.Errorf("nothing was changed, but:\n%s", got)
	}
	v.agent(func() error {
		return errors.Join(os.WriteFile(v.P+"/a/new", nil, 0o600), os.Chmod(v.P+"/a/b", 0o700), os.WriteFile(v.P+"/conf/open", nil, 0o600))
	})
	if got := list(v.changes(options)); got != "add a dir (was none) 755\nadd a/new file (was none) 600\nmodify conf/open file (was file) 644\n" {
		t.Errorf("changes beside masks:\n%s", got)
	}
	for i := len(masked) - 1; i >= 0; i-- {
		v.check(mnt.Detach(v.P + "/" + masked[i].path))
	}
	v.remount()
	for _, n := range []string{".env", ".aws/credentials", "conf/keys/id"} {
		if err := content(v.P+"/"+n, "S3CRET\n"); err != nil {
			t.Errorf("without its mask: %v", err)
		}
	}
}

// cover lays the masks as a holder does: read-only clones of an empty object,
// moved onto what an O_PATH descriptor names.
func cover(v *view) {
	v.t.Helper()
	v.check(os.WriteFile(v.dir+"/empty-file", nil, 0o444))
	v.check(os.Mkdir(v.dir+"/empty-dir", 0o555))
	for _, m := range masked {
		src := "/empty-file"
		if m.dir {
			src = "/empty-dir"
		}
		from, err := mnt.OpenTree(unix.AT_FDCWD, v.dir+src, unix.OPEN_TREE_CLONE)
		v.check(err)
		v.check(mnt.SetAttr(from, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC, 0, false))
		at, err := mnt.OpenTree(unix.AT_FDCWD, v.P+"/"+m.path, unix.AT_SYMLINK_NOFOLLOW)
		v.check(err)
		if err := mnt.Move(from, at, ""); err != nil {
			v.t.Fatalf("cover %s: %v", m.path, err)
		}
		v.check(errors.Join(unix.Close(from), unix.Close(at)))
	}
}

// untouchable tries everything on the masked paths themselves.
func untouchable(v *view) error {
	var err error
	for _, m := range masked {
		p := v.P + "/" + m.path
		if m.dir {
			left, e := os.ReadDir(p)
			err = errors.Join(err, e, want("entries of "+m.path, len(left), 0),
				fails("create in "+m.path, os.WriteFile(p+"/x", nil, 0o600), unix.EROFS))
		} else {
			err = errors.Join(err, content(p, ""),
				fails("write "+m.path, os.WriteFile(p, []byte("x"), 0o600), unix.EROFS, unix.EACCES),
				fails("link "+m.path, os.Link(p, v.P+"/alias"), unix.EXDEV, unix.EPERM))
		}
		err = errors.Join(err,
			fails("remove "+m.path, os.Remove(p), unix.EBUSY),
			fails("rename "+m.path, os.Rename(p, v.P+"/away"), unix.EBUSY, unix.EXDEV),
			fails("chmod "+m.path, os.Chmod(p, 0o777), unix.EROFS, unix.EPERM))
		if e := os.WriteFile(v.P+"/over", nil, 0o600); e != nil {
			return e
		}
		err = errors.Join(err, fails("rename over "+m.path, unix.Rename(v.P+"/over", p), unix.EBUSY, unix.EXDEV, unix.EISDIR), os.Remove(v.P+"/over"))
	}
	return err
}

// ancestorsHeld tries to move or remove the directories above masks.
func ancestorsHeld(v *view) error {
	var err error
	for _, d := range []string{"conf", "conf/keys", "a", "a/b"} {
		err = errors.Join(err,
			fails("rename "+d, os.Rename(v.P+"/"+d, v.P+"/elsewhere"), unix.EXDEV, unix.EBUSY),
			fails("exchange "+d, swapWithNew(v, d), unix.EXDEV, unix.EBUSY),
			fails("remove "+d, os.Remove(v.P+"/"+d), unix.ENOTEMPTY, unix.EBUSY))
	}
	// rm -r takes what is beside the mask, never the mask.
	if e := script(v.P, `cp -r conf kept; if rm -rf conf a 2>/dev/null; then exit 9; fi; cp kept/open conf/open; rm -r kept`); e != nil {
		err = errors.Join(err, e)
	}
	return errors.Join(err, content(v.P+"/conf/keys/id", ""))
}

func swapWithNew(v *view, d string) error {
	other := v.P + "/other"
	if err := os.Mkdir(other, 0o755); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, v.P+"/"+d, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	if e := os.Remove(other); e != nil && err != nil {
		return errors.Join(err, e)
	}
	return err
}

// fails returns an error unless err is one of the errnos.
func fails(what string, err error, errnos ...error) error {
	for _, e := range errnos {
		if errors.Is(err, e) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s, want one of %v", what, text(err), errnos)
}

func text(err error) string {
	if err == nil {
		return "success"
	}
	return err.Error()
}
