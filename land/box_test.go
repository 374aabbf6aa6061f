package land

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// box is a project with a session beside it: real trees, and an upper that is
// written as overlayfs would write it.
type box struct {
	t       testing.TB
	project string
	upper   string
	base    string
	lands   string
	masked  []string
}

func newBox(t testing.TB) *box {
	t.Helper()
	return newBoxIn(t, diskDir(t))
}

func newBoxIn(t testing.TB, dir string) *box {
	t.Helper()
	b := &box{
		t: t, project: filepath.Join(dir, "p"), upper: filepath.Join(dir, "s", "upper"),
		base: filepath.Join(dir, "s", "base"), lands: filepath.Join(dir, "lands"),
	}
	for _, d := range []string{b.project, b.upper, b.base, b.lands} {
		b.must(os.MkdirAll(d, 0o755))
	}
	return b
}

func (b *box) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) options() Options {
	return Options{Project: b.project, Upper: b.upper, Base: b.base, Lands: b.lands, Session: "aaaaaaaaaaaa", UID: os.Geteuid(), Masked: b.masked}
}

// start records the base, as the start of a session does. The clock goes on
// first, so that the files of the test are older than the session.
func (b *box) start() *box {
	b.t.Helper()
	settle()
	b.must(Capture(b.t.Context(), b.project, b.base, Clock()))
	return b
}

// settle waits until file times tell apart what came before and what comes now.
func settle() {
	for range 2 { // fine-grained times (Linux 6.13) run ahead of the clock by up to a tick
		for c := Clock(); Clock() == c; {
			time.Sleep(time.Millisecond)
		}
	}
}

func (b *box) scan() *Changeset {
	b.t.Helper()
	cs, err := Scan(b.t.Context(), b.options())
	b.must(err)
	return cs
}

func (b *box) land() (*Result, error) {
	b.t.Helper()
	return Apply(b.t.Context(), b.options(), "")
}

func (b *box) mustLand() *Result {
	b.t.Helper()
	r, err := b.land()
	b.must(err)
	return r
}

func (b *box) undo(id string) (*Result, error) {
	b.t.Helper()
	return Undo(b.t.Context(), UndoOptions{Options: Options{Lands: b.lands}, ID: id})
}

// host edits the project; "" as content makes a directory.
func (b *box) host(path, content string) *box {
	b.t.Helper()
	put(b.t, filepath.Join(b.project, path), content, 0o644)
	return b
}

func put(t testing.TB, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func (b *box) hostDir(path string) *box {
	b.t.Helper()
	b.must(os.MkdirAll(filepath.Join(b.project, path), 0o755))
	return b
}

func (b *box) hostRemove(path string) *box {
	b.t.Helper()
	b.must(os.RemoveAll(filepath.Join(b.project, path)))
	return b
}

// The session's side. Each does to the upper what the kernel's overlay does.

// lower returns the project's entry that shows through at path, or nil.
func (b *box) lower(path string) os.FileInfo {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		up := filepath.Join(b.upper, dir)
		st, err := os.Lstat(up)
		if err == nil && (!st.IsDir() || opaque(up)) {
			return nil
		}
	}
	st, err := os.Lstat(filepath.Join(b.project, path))
	if err != nil {
		return nil
	}
	return st
}

func opaque(name string) bool {
	buf := make([]byte, 8)
	n, err := unix.Lgetxattr(name, "user.overlay.opaque", buf)
	return err == nil && string(buf[:n]) == "y"
}

// parents copies up the directories of path.
func (b *box) parents(path string) {
	b.t.Helper()
	dir := filepath.Dir(path)
	if dir == "." {
		return
	}
	b.parents(dir)
	up := filepath.Join(b.upper, dir)
	if _, err := os.Lstat(up); err == nil {
		return
	}
	mode := os.FileMode(0o755)
	if st := b.lower(dir); st != nil {
		mode = st.Mode().Perm()
	}
	b.must(os.Mkdir(up, 0o755))
	b.must(os.Chmod(up, mode))
}

// clear takes away what the upper has at path, for something new.
func (b *box) clear(path string) string {
	b.t.Helper()
	b.parents(path)
	up := filepath.Join(b.upper, path)
	b.must(os.RemoveAll(up))
	return up
}

func (b *box) write(path, content string) *box {
	b.t.Helper()
	mode := os.FileMode(0o644)
	if st := b.lower(path); st != nil && st.Mode().IsRegular() {
		mode = st.Mode().Perm()
	}
	up := b.clear(path)
	b.must(os.WriteFile(up, []byte(content), 0o600))
	b.must(os.Chmod(up, mode))
	return b
}

func (b *box) remove(path string) *box {
	b.t.Helper()
	low := b.lower(path)
	up := b.clear(path)
	if low != nil {
		b.must(unix.Mknod(up, unix.S_IFCHR, 0))
	}
	return b
}

func (b *box) mkdir(path string) *box {
	b.t.Helper()
	low := b.lower(path)
	up := b.clear(path)
	b.must(os.Mkdir(up, 0o755))
	if low != nil {
		b.must(unix.Setxattr(up, "user.overlay.opaque", []byte("y"), 0))
	}
	return b
}

func (b *box) symlink(target, path string) *box {
	b.t.Helper()
	b.must(os.Symlink(target, b.clear(path)))
	return b
}

// touchUp copies an entry up without a change.
func (b *box) touchUp(path string) string {
	b.t.Helper()
	b.parents(path)
	up, low := filepath.Join(b.upper, path), filepath.Join(b.project, path)
	if _, err := os.Lstat(up); err == nil {
		return up
	}
	st, err := os.Lstat(low)
	b.must(err)
	if st.IsDir() {
		b.must(os.Mkdir(up, 0o755))
	} else {
		content, err := os.ReadFile(low)
		b.must(err)
		b.must(os.WriteFile(up, content, 0o600))
	}
	b.must(os.Chmod(up, st.Mode()))
	b.must(os.Chtimes(up, st.ModTime(), st.ModTime()))
	return up
}

func (b *box) chmod(path string, mode os.FileMode) *box {
	b.t.Helper()
	b.must(os.Chmod(b.touchUp(path), mode))
	return b
}

// treeOf lists a directory: type, mode, bytes or target of each entry, and the
// modification time of files, by path.
func treeOf(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if rel == stateDir {
			return fs.SkipDir
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%06o", st.Mode)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + to
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d.%09d %q", st.Mtim.Sec, st.Mtim.Nsec, abbreviated(string(b)))
		}
		if rel != "." {
			out[rel] = line
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func abbreviated(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%s… %d", s[:200], len(s))
	}
	return s
}

// read returns a file of the project, or what keeps it from being read.
func (b *box) read(path string) string {
	c, err := os.ReadFile(filepath.Join(b.project, path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "<none>"
	case err != nil:
		return "<" + err.Error() + ">"
	}
	return string(c)
}

// leftovers lists what a landing that is over must not leave.
func (b *box) leftovers() []string {
	var out []string
	entries, _ := os.ReadDir(b.lands)
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "lock-"):
		case !e.IsDir(), strings.HasPrefix(e.Name(), makingPrefix), strings.HasPrefix(e.Name(), removingPrefix):
			out = append(out, e.Name())
		case !b.recorded(e.Name()):
			out = append(out, e.Name())
		default:
			out = append(out, copies(filepath.Join(b.lands, e.Name(), objectsDir))...)
		}
	}
	inside, _ := os.ReadDir(filepath.Join(b.project, stateDir))
	for _, e := range inside {
		switch {
		case e.Name() == ".gitignore" && len(inside) > 1:
		case !b.recorded(e.Name()):
			out = append(out, stateDir+"/"+e.Name())
		default:
			out = append(out, copies(filepath.Join(b.project, stateDir, e.Name()))...)
		}
	}
	return out
}

func (b *box) recorded(id string) bool {
	_, err := os.Stat(filepath.Join(b.lands, id, recordFile))
	return err == nil
}

// copies lists the copies of session files that are no object of a landing.
func copies(dir string) []string {
	var out []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "c") {
			out = append(out, dir+"/"+e.Name())
		}
	}
	return out
}
