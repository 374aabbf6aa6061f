package safefs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) { testbox.Main(m) }

// open returns a Dir on a new directory and that directory's path.
func open(t *testing.T) (*Dir, string) {
	t.Helper()
	path := t.TempDir()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestNamesThatCannotBeBelowAreRefused(t *testing.T) {
	d, _ := open(t)
	for _, rel := range []string{"..", "a/..", "../x", "/etc/passwd", "a\x00b", "a/../../b", strings.Repeat("n", 256)} {
		_, err := d.Open(rel, unix.O_RDONLY, 0)
		wantErr(t, "open "+rel, err, ErrPath)
		wantErr(t, "mkdir "+rel, d.Mkdir(rel, 0o700), ErrPath)
		wantErr(t, "mkdirall "+rel, d.MkdirAll(rel, 0o700), ErrPath)
		wantErr(t, "remove "+rel, d.Remove(rel), ErrPath)
		wantErr(t, "removeall "+rel, d.RemoveAll(rel), ErrPath)
		wantErr(t, "rename to "+rel, d.Rename("a", d, rel), ErrPath)
		_, err = d.Lstat(rel)
		wantErr(t, "lstat "+rel, err, ErrPath)
	}
	wantErr(t, "removeall of itself", d.RemoveAll("."), ErrPath)
	wantErr(t, "removeall of nothing", d.RemoveAll(""), ErrPath)
}

func TestLinksAreNotFollowed(t *testing.T) {
	d, path := open(t)
	must(t, os.Mkdir(path+"/real", 0o700))
	write(t, path+"/real/f", "x")
	must(t, os.Symlink("real", path+"/dir"))
	must(t, os.Symlink("real/f", path+"/file"))
	for _, rel := range []string{"dir/f", "file", "dir/"} {
		if _, err := d.Open(rel, unix.O_RDONLY, 0); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("open %s: %v, want ELOOP or ENOTDIR", rel, err)
		}
	}
	wantErr(t, "create through a link", func() error {
		_, err := d.Open("file", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600)
		return err
	}(), unix.ELOOP)
	wantErr(t, "chmod a link", d.Chmod("file", 0o777), unix.ELOOP)
	wantErr(t, "setxattr on a link", d.Setxattr("file", "user.a", nil), unix.ELOOP)
	if err := d.MkdirAll("dir/sub", 0o700); err == nil {
		t.Error("MkdirAll went through a link")
	}
	if got, err := d.Readlink("file"); err != nil || got != "real/f" {
		t.Errorf("Readlink = %q, %v", got, err)
	}
	must(t, d.RemoveAll("dir"))
	if b, err := os.ReadFile(path + "/real/f"); err != nil || string(b) != "x" {
		t.Errorf("after removal of the link its target reads %q, %v", b, err)
	}
	if _, err := OpenReal(path + "/real"); err != nil {
		t.Errorf("OpenReal of a real path: %v", err)
	}
	must(t, os.Symlink("real", path+"/dir"))
	_, err := OpenReal(path + "/dir")
	wantErr(t, "OpenReal of a link", err, unix.ELOOP)
}

func TestReadRegularTakesOnlyPlainFiles(t *testing.T) {
	d, path := open(t)
	write(t, path+"/ok", "12345")
	write(t, path+"/linked", "x")
	must(t, os.Link(path+"/linked", path+"/other"))
	must(t, unix.Mkfifo(path+"/fifo", 0o600))
	must(t, os.Mkdir(path+"/dir", 0o700))
	if b, err := d.ReadRegular("ok", 5); err != nil || string(b) != "12345" {
		t.Errorf("ReadRegular = %q, %v", b, err)
	}
	for rel, want := range map[string]error{
		"ok": ErrTooLarge, "linked": ErrLinked, "fifo": ErrNotRegular, "dir": ErrNotRegular, "none": fs.ErrNotExist,
	} {
		_, err := d.ReadRegular(rel, 4)
		wantErr(t, rel, err, want)
	}
	// Nobody reads the FIFO: the open must answer, not wait.
	_, err := d.Open("fifo", unix.O_WRONLY, 0)
	wantErr(t, "write to a FIFO", err, unix.ENXIO)
}

func TestOperations(t *testing.T) {
	d, path := open(t)
	must(t, d.MkdirAll("a/b/c", 0o755))
	must(t, d.MkdirAll("a/b/c", 0o755))
	write(t, path+"/a/one", "1")
	write(t, path+"/a/two", "2")
	sub, err := d.Sub("a/b")
	must(t, err)
	defer func() { _ = sub.Close() }()
	must(t, d.Exchange("a/one", d, "a/two"))
	wantErr(t, "rename onto a file", d.RenameNoReplace("a/one", d, "a/two"), fs.ErrExist)
	must(t, d.Rename("a/one", sub, "moved"))
	must(t, d.Link("a/two", sub, "c/hard"))
	must(t, d.Symlink("anything\n\xff", "a/link"))
	must(t, d.Chmod("a/b/moved", 0o640))
	when := Time{Sec: 1 << 33, Nsec: 5}
	must(t, d.Chtimes("a/b/moved", when, when))
	st, err := d.Lstat("a/b/moved")
	must(t, err)
	if st.Perm() != 0o640 || st.Mtime.Sec != when.Sec || st.Size != 1 || st.Nlink != 1 || !st.IsRegular() {
		t.Errorf("Lstat = %+v", st)
	}
	hard, err := sub.Lstat("c/hard")
	must(t, err)
	two, err := d.Lstat("a/two")
	must(t, err)
	if !hard.SameFile(two) || hard.SameFile(st) || hard.Nlink != 2 {
		t.Errorf("hard link %+v, original %+v", hard, two)
	}
	got, err := d.ReadDir("a")
	must(t, err)
	want := []Entry{{"b", unix.S_IFDIR}, {"link", unix.S_IFLNK}, {"two", unix.S_IFREG}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadDir (-want +got):\n%s", diff)
	}
	must(t, d.Remove("a/link"))
	wantErr(t, "remove a full directory", d.Remove("a"), unix.ENOTEMPTY)
	must(t, d.RemoveAll("a"))
	must(t, d.RemoveAll("a"))
	if left, err := d.ReadDir(""); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestXattrs(t *testing.T) {
	d, path := open(t)
	write(t, path+"/f", "")
	must(t, os.Chmod(path+"/f", 0o600))
	if err := d.Setxattr("f", "user.b", []byte("x\x00y")); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the temporary directory's file system has no user attributes")
	}
	must(t, d.Setxattr("f", "user.a", make([]byte, 1000)))
	names, err := d.Listxattr("f")
	if err != nil || !cmp.Equal(names, []string{"user.a", "user.b"}) {
		t.Errorf("Listxattr = %q, %v", names, err)
	}
	if v, err := d.Getxattr("f", "user.b"); err != nil || string(v) != "x\x00y" {
		t.Errorf("Getxattr = %q, %v", v, err)
	}
	if v, err := d.Getxattr("f", "user.a"); err != nil || len(v) != 1000 {
		t.Errorf("Getxattr = %d bytes, %v", len(v), err)
	}
	must(t, d.Removexattr("f", "user.a"))
	_, err = d.Getxattr("f", "user.a")
	wantErr(t, "a removed attribute", err, unix.ENODATA)
}

func TestAnyBytesAndAnyLength(t *testing.T) {
	d, path := open(t)
	for _, name := range []string{"new\nline", "\xff\xfe", " ", "-rf", "a:b,c\\d", strings.Repeat("n", 255)} {
		f, err := d.Open(name, unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL, 0o600)
		must(t, err)
		must(t, f.Close())
		if _, err := os.Lstat(filepath.Join(path, name)); err != nil {
			t.Error(err)
		}
		if _, err := d.ReadRegular(name, 1); err != nil {
			t.Error(err)
		}
	}
	long := strings.Repeat(strings.Repeat("d", 199)+"/", 300) + "end" // 60,003 bytes
	must(t, d.MkdirAll(long, 0o700))
	f, err := d.Open(long+"/file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	must(t, f.Close())
	if st, err := d.Lstat(long + "/file"); err != nil || !st.IsRegular() {
		t.Errorf("Lstat of a 60,000 byte path: %v, %v", st, err)
	}
	must(t, d.Rename(long+"/file", d, long+"/file2"))
	if got, err := d.ReadDir(long); err != nil || len(got) != 1 || got[0].Name != "file2" {
		t.Errorf("ReadDir of a 60,000 byte path: %v, %v", got, err)
	}
	must(t, d.RemoveAll(strings.Repeat("d", 199)))
	if got, err := d.ReadDir(""); err != nil || len(got) != 6 {
		t.Errorf("left %v, %v, want the six files", got, err)
	}
}
