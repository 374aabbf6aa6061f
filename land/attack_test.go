package land

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A directory of the project is swapped with a link to the outside, all the time,
// while files are put into it.
func TestSymlinkSwapRace(t *testing.T) {
	const rounds = 10_000
	b := newBoxIn(t, quickDir(t))
	outside := filepath.Join(filepath.Dir(b.project), "outside")
	b.must(os.Mkdir(outside, 0o755))
	b.hostDir("x")
	b.must(os.Symlink(outside, filepath.Join(b.project, "evil")))
	b.start()
	tr, err := openTree(b.project)
	b.must(err)
	defer tr.close()
	l, err := begin(t.Context(), store{b.lands}, tr, intent{ID: "bbbbbbbbbbbb", Project: b.project, Root: tr.id})
	b.must(err)
	defer l.close()
	for i := range rounds {
		b.must(l.stage.dir.Mkdir(slotName(i), 0o700))
		n, err := look(l.stage.dir, slotName(i), fmt.Sprintf("x/f%d", i), tr.stat.Dev)
		b.must(err)
		l.ops = append(l.ops, Op{Kind: Create, Path: n.Path, New: []Node{n}})
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, b.project+"/x", unix.AT_FDCWD, b.project+"/evil", unix.RENAME_EXCHANGE)
			}
		}
	})
	a := &applier{ctx: t.Context(), tree: tr, stage: l.stage.dir, ops: l.ops, out: make([][]Node, rounds)}
	landed, refused := 0, 0
	for i := range l.ops {
		switch err := a.step(i); {
		case err == nil:
			landed++
		case errors.Is(err, ErrConflict):
			refused++
		default:
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	names, err := os.ReadDir(outside)
	b.must(err)
	if len(names) > 0 {
		t.Errorf("%d entries outside of the project, first %s", len(names), names[0].Name())
	}
	if landed == 0 || refused == 0 {
		t.Errorf("%d landed and %d refused: the race did not happen", landed, refused)
	}
	t.Logf("%d landed, %d refused", landed, refused)
}

func TestLinksLandAsLinks(t *testing.T) {
	b := newBox(t)
	out := filepath.Join(filepath.Dir(b.project), "outside")
	b.must(os.WriteFile(out, []byte("secret"), 0o600))
	b.host("f", "in").host("g", "g").start()
	b.symlink("/etc/hostname", "abs").symlink("../../../../etc/hostname", "rel").symlink(out, "g").symlink("dangling", "dl").symlink("loop", "loop").symlink("f", "in")
	r := b.mustLand()
	for path, want := range map[string]string{"abs": "/etc/hostname", "rel": "../../../../etc/hostname", "g": out, "dl": "dangling", "loop": "loop", "in": "f"} {
		if got, err := os.Readlink(filepath.Join(b.project, path)); got != want {
			t.Errorf("%s leads to %q, %v; want %q", path, got, err, want)
		}
	}
	if c, _ := os.ReadFile(out); string(c) != "secret" {
		t.Errorf("the target was written: %q", c)
	}
	var told []string
	for _, n := range r.Notices {
		told = append(told, n.Path)
	}
	if want := []string{"abs", "g", "rel"}; !slices.Equal(told, want) {
		t.Errorf("reported %v, want %v", told, want)
	}
}

// held returns "path reason" of what did not land.
func held(hs []Held) string {
	var out []string
	for _, h := range hs {
		out = append(out, h.Path+" "+h.Reason)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestWhatNeverLands(t *testing.T) {
	b := newBox(t)
	b.masked = []string{".env", "secrets"}
	b.host("f", "1").host(".git/config", "host").host(".git/HEAD", "ref").host("v/.git/HEAD", "x").host("v/code", "c").host(".env", "S").start()
	before := treeOf(t, b.project)
	b.write(".git/config", "[core]\n\tfsmonitor = touch /tmp/PWNED").write(".git/hooks/post-checkout", "#!").write("sub/.GIT/config", "x").write("gitlink/.git", "gitdir: /x")
	b.write(".env", "stolen").write("secrets/k", "k").write(".sbxd/x", "x").write(".sbxd.toml", "x")
	b.must(unix.Mkfifo(filepath.Join(b.upper, "p"), 0o644))
	b.must(os.MkdirAll(filepath.Join(b.upper, "tmp/sockets"), 0o755))
	l, err := net.Listen("unix", filepath.Join(b.upper, "tmp/sockets/s"))
	b.must(err)
	defer l.Close()
	b.write("set", "s")
	b.must(os.Chmod(filepath.Join(b.upper, "set"), 0o755|os.ModeSetuid))
	b.write("marked", "m")
	b.must(unix.Setxattr(filepath.Join(b.upper, "marked"), "user.fuseoverlayfs.opaque", []byte("y"), 0))
	b.must(unix.Setxattr(filepath.Join(b.upper, "marked"), "user.mine", []byte("kept"), 0))
	want := ".env masked, .git git, .sbxd.toml policy, gitlink/.git git, marked forged, p fifo, secrets masked, set setid, sub/.GIT git, tmp/sockets/s socket"
	if os.Geteuid() == 0 {
		b.must(unix.Mknod(filepath.Join(b.upper, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		want = strings.Replace(want, "p fifo", "null device, p fifo", 1)
	}
	b.remove("v").write("after", "1")
	start := time.Now()
	r := b.mustLand()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	want = strings.Replace(want, "tmp/sockets/s socket", "tmp/sockets/s socket, v held-below, v/.git git", 1)
	if got := held(r.Held); got != want {
		t.Errorf("held:\n%s, want\n%s", got, want)
	}
	now := treeOf(t, b.project)
	for _, p := range []string{".git", ".git/config", ".git/HEAD", ".env", "v/.git", "v/.git/HEAD"} {
		if now[p] != before[p] {
			t.Errorf("%s was %s, is %s", p, before[p], now[p])
		}
	}
	for _, p := range []string{".git/hooks", "sub/.GIT", "gitlink/.git", "secrets", ".sbxd", ".sbxd.toml", "p", "tmp/sockets/s", "null", "v/code"} {
		if now[p] != "" {
			t.Errorf("%s is there: %s", p, now[p])
		}
	}
	if !strings.HasPrefix(now["set"], "100755") || now["after"] == "" {
		t.Errorf("set %q, after %q", now["set"], now["after"])
	}
	buf := make([]byte, 64)
	if n, err := unix.Getxattr(filepath.Join(b.project, "marked"), "user.mine", buf); err != nil || string(buf[:n]) != "kept" {
		t.Errorf("user.mine: %q, %v", buf[:max(n, 0)], err)
	}
	if n, err := unix.Getxattr(filepath.Join(b.project, "marked"), "user.fuseoverlayfs.opaque", buf); err == nil {
		t.Errorf("a mark landed: %q", buf[:n])
	}
	if _, err := b.land(); !errors.Is(err, ErrNothing) {
		t.Errorf("only held things are left: %v, want ErrNothing", err)
	}
}

func TestADirectoryThatHoldsGitDoesNotBecomeAFile(t *testing.T) {
	b := newBox(t)
	b.host("v/.git/HEAD", "x").host("v/code", "c").start()
	b.write("v", "file")
	_, err := b.land()
	var c *ConflictError
	if !errors.As(err, &c) || c.Conflicts[0].Kind != ConflictHeld {
		t.Fatalf("%v, want a conflict %s", err, ConflictHeld)
	}
	if b.read("v/.git/HEAD") != "x" || b.read("v/code") != "c" {
		t.Error("the project was changed")
	}
}

func TestOneLandingAtATime(t *testing.T) {
	b := newBox(t)
	b.host("f", "1").start().write("f", "2")
	tr, err := openTree(b.project)
	b.must(err)
	defer tr.close()
	unlock, err := lockProject(t.Context(), store{b.lands}, tr.id, 0)
	b.must(err)
	start := time.Now()
	o := b.options()
	o.Wait = 150 * time.Millisecond
	if _, err := Apply(t.Context(), o, ""); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if took := time.Since(start); took < o.Wait || took > 3*time.Second {
		t.Errorf("waited %v, want about %v", took, o.Wait)
	}
	time.AfterFunc(50*time.Millisecond, unlock)
	o.Wait = 5 * time.Second
	if _, err := Apply(t.Context(), o, ""); err != nil {
		t.Errorf("after the other is done: %v", err)
	}
}

// Two sessions land at once: the second sees what the first did as the host's.
func TestTwoSessionsAtOnce(t *testing.T) {
	b := newBox(t)
	b.host("f", "0")
	other := *b
	other.upper, other.base = b.upper+"2", b.base+"2"
	b.must(errors.Join(os.Mkdir(other.upper, 0o755), os.Mkdir(other.base, 0o755)))
	b.start()
	other.start()
	for i := range 40 {
		b.write(fmt.Sprintf("f%d", i), "A")
		other.write(fmt.Sprintf("f%d", i), "B")
	}
	b.write("f", "A")
	other.write("f", "B")
	var wg sync.WaitGroup
	var errs [2]error
	for i, x := range []*box{b, &other} {
		wg.Go(func() {
			o := x.options()
			o.Wait = 10 * time.Second
			_, errs[i] = Apply(t.Context(), o, "")
		})
	}
	wg.Wait()
	won := b.read("f")
	for i := range 40 {
		if got := b.read(fmt.Sprintf("f%d", i)); got != won {
			t.Fatalf("f%d is %s, f is %s", i, got, won)
		}
	}
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("one lands, the other has a conflict: %v, %v", errs[0], errs[1])
	}
	if err := errors.Join(errs[0], errs[1]); !errors.Is(err, ErrConflict) {
		t.Errorf("%v, want a conflict", err)
	}
}

func TestReplacedProjectIsRefused(t *testing.T) {
	b := newBox(t)
	b.host("f", "1").start().write("f", "2")
	b.must(os.Rename(b.project, b.project+".old"))
	b.must(os.Mkdir(b.project, 0o755))
	b.host("f", "1")
	for _, f := range []func() error{
		func() error { _, err := b.land(); return err },
		func() error { _, err := Scan(t.Context(), b.options()); return err },
	} {
		if err := f(); !errors.Is(err, ErrRefused) {
			t.Errorf("another directory: %v, want ErrRefused", err)
		}
	}
	b.must(os.RemoveAll(b.project))
	if _, err := b.land(); !errors.Is(err, ErrRefused) {
		t.Errorf("no directory: %v, want ErrRefused", err)
	}
	b.must(os.Symlink(b.project+".old", b.project))
	if _, err := b.land(); !errors.Is(err, ErrRefused) {
		t.Errorf("a link to it: %v, want ErrRefused", err)
	}
}

// A checkout may hold a .sbxd of its own; ours is only what the owner's directory is.
func TestStateDirOfTheProject(t *testing.T) {
	b := newBoxIn(t, quickDir(t))
	b.lands = newBox(t).lands
	if mayReachTest(t, b) {
		t.Skip("needs two file systems")
	}
	outside := filepath.Join(filepath.Dir(b.project), "outside")
	b.must(os.Mkdir(outside, 0o755))
	b.host("f", "1")
	own := filepath.Join(b.project, stateDir)
	b.must(os.Symlink(outside, own))
	b.start().write("f", "2")
	if _, err := b.land(); !errors.Is(err, ErrRefused) {
		t.Errorf("a link: %v, want ErrRefused", err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("outside of the project: %v, %v", names, err)
	}
	b.must(errors.Join(os.Remove(own), os.Mkdir(own, 0o755), os.WriteFile(filepath.Join(own, "theirs"), []byte("x"), 0o644)))
	r := b.mustLand()
	if st := stat(t, own); st.Mode&0o777 != 0o700 {
		t.Errorf("mode %o, want 700", st.Mode&0o777)
	}
	for name, want := range map[string]string{stateDir + "/theirs": "x", stateDir + "/.gitignore": "*\n", "f": "2", stateDir + "/" + r.Record.ID + "/0": "1"} {
		if got := b.read(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func mayReachTest(t *testing.T, b *box) bool {
	tr, err := openTree(b.project)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	return mayReach(store{b.lands}, tr)
}
