package masks

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// real makes a tree below a new directory and returns a session in its home and p.
func real(t *testing.T, files ...string) (Input, string) {
	t.Helper()
	dir := testbox.TempDir(t)
	for _, f := range append(files, "home/p/") {
		file := filepath.Join(dir, f)
		if strings.HasSuffix(f, "/") {
			file += "/x"
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "/") {
			continue
		}
		if err := os.WriteFile(file, []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := input()
	in.Home, in.Project = filepath.Join(dir, "home"), filepath.Join(dir, "home/p")
	in.StateDirs = []string{filepath.Join(dir, "state")}
	return in, dir
}

func link(t *testing.T, target, name string, hard bool) {
	t.Helper()
	do := os.Symlink
	if hard {
		do = os.Link
	}
	if err := do(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestOSLooks(t *testing.T) {
	_, dir := real(t, "file", "d/inside")
	link(t, "d", filepath.Join(dir, "link"), false)
	link(t, filepath.Join(dir, "file"), filepath.Join(dir, "hard"), true)
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Type{
		"file": File, "hard": File, "d": Dir, "link": Symlink, "fifo": Other, "none": Missing, "file/below": Missing, "none/below": Missing, "link/inside": File,
	} {
		info, err := OS{}.Lstat(filepath.Join(dir, name))
		if err != nil || info.Type != want {
			t.Errorf("%s is %v, %v; want %v", name, info, err, want)
		}
		if (info.Nlink == 2) != (name == "file" || name == "hard") && want == File {
			t.Errorf("%s has %d links", name, info.Nlink)
		}
	}
	if text, err := (OS{}).Readlink(filepath.Join(dir, "link")); err != nil || text != "d" {
		t.Errorf("the link says %q, %v", text, err)
	}
	if names, err := (OS{}).ReadDir(dir); err != nil || !slices.Equal(names, []string{"d", "fifo", "file", "hard", "home", "link"}) {
		t.Errorf("the directory holds %q, %v", names, err)
	}
	if _, err := (OS{}).ReadDir(filepath.Join(dir, "link")); err == nil {
		t.Error("a link is read as a directory")
	}
}

// Paths that are longer than the kernel takes at once.
func TestOSLongPaths(t *testing.T) {
	_, dir := real(t)
	long, fd := dir, unix.AT_FDCWD
	name := strings.Repeat("n", 200)
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for at := dir; len(long) < 8000; at = name {
		next, err := unix.Openat(fd, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fd, fds = next, append(fds, next)
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		long += "/" + name
	}
	if info, err := (OS{}).Lstat(long); err != nil || info.Type != Dir {
		t.Errorf("a path of %d bytes: %v, %v", len(long), info, err)
	}
	if info, err := (OS{}).Lstat(long + "/x"); err != nil || info.Type != Missing {
		t.Errorf("a missing path of %d bytes: %v, %v", len(long), info, err)
	}
	if names, err := (OS{}).ReadDir(filepath.Dir(long)); err != nil || !slices.Equal(names, []string{name}) {
		t.Errorf("a directory of %d bytes: %q, %v", len(long), names, err)
	}
}

// Case 7, on a real tree: a link into a credential directory is found wherever a
// session could see it, unless it is hidden too.
func TestOSHardLinks(t *testing.T) {
	in, dir := real(t, "home/.ssh/deep/id", "home/.netrc", "home/other/x", "outside/")
	link(t, filepath.Join(in.Home, ".ssh/deep/id"), filepath.Join(in.Project, "x"), true)
	refused(t, in, OS{}, ".ssh/deep/id", "home/p/x", "hard link")
	in.Rules = []Rule{rule(Mask, in.Project+"/x")}
	mustMake(t, in, OS{})
	link(t, filepath.Join(in.Home, ".netrc"), filepath.Join(dir, "outside/n"), true)
	mustMake(t, in, OS{}) // no session sees it there
	in.Rules = append(in.Rules, rule(ReadOnlyInput, filepath.Join(dir, "outside")))
	refused(t, in, OS{}, ".netrc", "outside/n", "hard link")
}

func TestOSAliasesAreBounded(t *testing.T) {
	in, dir := real(t, "home/secret", "far/x")
	link(t, filepath.Join(in.Home, "secret"), filepath.Join(dir, "far/y"), true)
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(in.Home, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info, err := OS{}.Lstat(in.Home + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	q := AliasQuery{Files: map[string]Info{in.Home + "/secret": info}, Roots: []string{in.Home}, Limit: 20}
	got, err := OS{}.Aliases(q)
	if want := (AliasAnswer{Unsure: []string{in.Home + "/secret"}}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	q.Limit = 1000
	if got, err := (OS{}).Aliases(q); err != nil || !cmp.Equal(got, AliasAnswer{}) {
		t.Errorf("all looked at: %+v, %v", got, err)
	}
	q.Roots = append(q.Roots, filepath.Join(dir, "far"))
	q.Skip = []string{filepath.Join(dir, "far")}
	if got, err := (OS{}).Aliases(q); err != nil || len(got.Links) != 1 {
		t.Errorf("a root that is skipped elsewhere: %+v, %v", got, err)
	}
}

// A directory that the session's uid may not enter is hidden as a whole.
func TestOSClosed(t *testing.T) {
	if !testbox.Unprivileged(t) {
		return
	}
	in, _ := real(t, "home/.config/gh/hosts.yml")
	if err := os.Chmod(in.Home+"/.config", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(in.Home+"/.config", 0o755) })
	plan := mustMake(t, in, OS{})
	verdicts(t, plan, map[string]Verdict{in.Home + "/.config/gh/hosts.yml": Hidden, in.Home + "/.config": Hidden})
}

// Case 7, with a real second mount of the project.
func TestOSMountAlias(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	in, _ := real(t, "home/p/.env", "home/alias/")
	in.Rules = []Rule{rule(Mask, in.Project+"/.env")}
	in.Mounts = mounts(t)
	mustMake(t, in, OS{})
	if err := unix.Mount(in.Project, in.Home+"/alias", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(in.Home+"/alias", unix.MNT_DETACH) })
	in.Mounts = mounts(t)
	refused(t, in, OS{}, in.Project+"/.env", in.Home+"/alias/.env", "second mount")
}

// mounts reads the mount table; paths of tests need no unescaping.
func mounts(t *testing.T) []Mount {
	t.Helper()
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []Mount
	for s := bufio.NewScanner(f); s.Scan(); {
		var id, up int
		var major, minor uint32
		var m Mount
		if _, err := fmt.Sscanf(s.Text(), "%d %d %d:%d %s %s", &id, &up, &major, &minor, &m.Root, &m.Point); err != nil {
			t.Fatalf("%v: %q", err, s.Text())
		}
		m.Dev = unix.Mkdev(major, minor)
		out = append(out, m)
	}
	return out
}
