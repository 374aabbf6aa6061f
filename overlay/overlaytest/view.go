package overlaytest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// view is a mounted view and its layers, all below one directory.
type view struct {
	t       tb
	backend overlay.Backend
	dir     string
	// P is where it is mounted.
	P, lower, pins, upper, work string

	before Tree // of lower
	frozen bool // the test does not change lower; checked at the end
}

// newView makes layers, fills the lower with setup (as an agent, with the
// directory as argument) and mounts. The view is unmounted at the end, and the
// lower must then be what it was.
func (s *suite) newView(t *testing.T, setup func(lower string) error) *view {
	t.Helper()
	v := s.makeView(t, s.dir(t), setup)
	t.Cleanup(v.finish)
	return v
}

func (s *suite) makeView(t tb, dir string, setup func(lower string) error) *view {
	t.Helper()
	v := &view{
		t: t, backend: s.backend, dir: dir, frozen: true,
		P: dir + "/view", lower: dir + "/lower", pins: dir + "/pins", upper: dir + "/upper", work: dir + "/work",
	}
	for _, d := range []string{v.P, v.lower, v.pins, v.upper, v.work} {
		v.check(os.Mkdir(d, 0o755))
	}
	if setup != nil {
		v.check(asAgent(func() error { return setup(v.lower) }))
	}
	v.before = v.tree(v.lower)
	v.mount()
	return v
}

// memory returns a directory for many small views: in memory, or on disk where
// tmpfs keeps no user attributes (before Linux 6.6).
func memory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	fd, err := mnt.Tmpfs(256<<20, 1<<17, 0o755)
	if err != nil {
		return dir
	}
	defer unix.Close(fd)
	if err := unix.Setxattr(mnt.Name(fd), "user.sbxd", nil, 0); err != nil {
		return dir
	}
	if err := mnt.Move(fd, unix.AT_FDCWD, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mnt.Detach(dir) })
	return dir
}

func (v *view) check(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *view) finish() {
	if mounted(v.P) {
		v.unmount()
	}
	if !v.frozen {
		return
	}
	if diff := v.before.Diff(v.tree(v.lower)); diff != "" {
		v.t.Errorf("the lower was changed:\n%s", diff)
	}
}

func mounted(path string) bool {
	d, err := safefs.OpenDir(path)
	if err != nil {
		return false
	}
	defer d.Close()
	st, err := d.Lstat("")
	return err == nil && st.MountRoot
}

func (v *view) mount() {
	v.t.Helper()
	lower, pins, upper, work := v.open(v.lower), v.open(v.pins), v.open(v.upper), v.open(v.work)
	m, err := v.backend.Mount(overlay.Spec{Lowers: []*os.File{lower, pins}, Upper: upper, Work: work})
	v.check(err)
	for _, f := range []*os.File{lower, pins, upper, work} {
		v.check(f.Close())
	}
	v.check(mnt.Move(int(m.Fd()), unix.AT_FDCWD, v.P))
	v.check(m.Close())
}

func (v *view) open(dir string) *os.File {
	v.t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	v.check(err)
	return os.NewFile(uintptr(fd), dir)
}

// unmount fails the test if something still uses the view.
func (v *view) unmount() {
	v.t.Helper()
	if err := unix.Unmount(v.P, unix.UMOUNT_NOFOLLOW); err != nil {
		v.t.Errorf("unmount the view: %v", err)
		_ = mnt.Detach(v.P)
	}
}

func (v *view) remount() {
	v.t.Helper()
	v.unmount()
	v.mount()
}

// agent runs f as an agent would and fails the test with its error.
func (v *view) agent(f func() error) {
	v.t.Helper()
	if err := asAgent(f); err != nil {
		v.t.Error(err)
	}
}

func (v *view) tree(dir string) Tree {
	v.t.Helper()
	tr, err := ReadTree(dir)
	v.check(err)
	return tr
}

// changes decodes the upper against the lower.
func (v *view) changes(opt overlay.Options) *overlay.Set {
	v.t.Helper()
	s, err := decode(v.upper, v.lower, opt)
	v.check(err)
	return s
}

func decode(upper, lower string, opt overlay.Options) (*overlay.Set, error) {
	up, err := safefs.OpenDir(upper)
	if err != nil {
		return nil, err
	}
	defer up.Close()
	low, err := safefs.OpenDir(lower)
	if err != nil {
		return nil, err
	}
	defer low.Close()
	base := overlay.NewLive(low)
	defer base.Close()
	return overlay.Changes(context.Background(), up, base, opt)
}

// consistent checks what must hold at any time: the view is the same after a
// remount, and it is base + Changes. want, if not nil, is what it must show.
func (v *view) consistent(want Tree) {
	v.t.Helper()
	seen := v.tree(v.P)
	if want != nil {
		if diff := want.Diff(seen); diff != "" {
			v.t.Errorf("the view is not what a plain directory is:\n%s", diff)
		}
	}
	v.remount()
	if diff := seen.Diff(v.tree(v.P)); diff != "" {
		v.t.Errorf("the view is different after a remount:\n%s", diff)
	}
	v.addsUp(seen)
}

// addsUp checks that base + Changes is the tree seen.
func (v *view) addsUp(seen Tree) {
	v.t.Helper()
	set := v.changes(overlay.Options{})
	sum, err := os.MkdirTemp(v.dir, "sum")
	v.check(err)
	v.check(CopyTree(v.lower, sum))
	v.check(Apply(set, v.upper, sum))
	if diff := seen.Diff(v.tree(sum)); diff != "" {
		v.t.Errorf("base + changes is not the view:\n%s\nchanges:\n%s", diff, list(set))
	}
}

func list(s *overlay.Set) string {
	out := ""
	for _, c := range s.Changes {
		out += fmt.Sprintf("%s %s %s (was %s) %o\n", c.Op, c.Path, c.Type, c.Was, c.Mode)
	}
	return out
}
