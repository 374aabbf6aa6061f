package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// works starts a session on a project, changes it, lands that, and looks for the change
// in the real directory and for hidden files inside.
func (b *box) works(t *testing.T, project, real string) {
	t.Helper()
	i := b.intrude(t, "--project", project)
	if out := i.sh("cat marker; echo new >made && rm -f gone"); out != "marker" {
		t.Errorf("%q is another tree: %s", project, out)
	}
	i.hunt()
	b.run(t, 0, "land", "--yes", i.id)
	if out, err := os.ReadFile(filepath.Join(real, "made")); err != nil || string(out) != "new\n" {
		t.Errorf("%q: nothing landed: %q %v", project, out, err)
	}
	if _, err := os.Lstat(filepath.Join(real, "gone")); err == nil {
		t.Errorf("%q: gone is still there", project)
	}
	b.run(t, 0, "rm", i.id)
}

// TestEscapeByOddPaths works in directories whose names mean something to somebody:
// bubblewrap, overlayfs, mount tables, shells.
func TestEscapeByOddPaths(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{".ssh/id": secret})
	for _, name := range []string{"a,b=c,upperdir=x:co:lon", "back\\slash sp ace\nline", "--bind #hash", "'q\"uo`te$HOME\t*?[]{}", "(deleted) é\u202e"} {
		dir := filepath.Join(b.home, name, name)
		b.plant(t, map[string]string{dir + "/marker": "marker", dir + "/gone": ""})
		b.works(t, dir, dir)
	}
	for _, bad := range []string{"\xff\xfe", "x/\x80"} {
		b.plant(t, map[string]string{b.home + "/" + bad + "/marker": "marker"})
		out, code := b.sbxd("start", "--project", b.home+"/"+bad)
		if code != 2 && code != 7 || !strings.Contains(out, "UTF-8") {
			t.Errorf("start in %q ended with %d: %s", bad, code, out)
		}
	}
}

// TestEscapeByLongPaths works in a directory at the end of a very long path, and is
// refused one that is too long.
func TestEscapeByLongPaths(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{".ssh/id": secret})
	const limit = 4000
	dir := b.home
	for n := 0; len(dir)+101 <= limit-20; n++ {
		dir += "/" + strings.Repeat("d", 100)
	}
	b.owner(t, `mkdir -p "$1" && cd "$1" && printf marker >marker && touch gone`, dir)
	b.works(t, dir, dir)
	long := dir + strings.Repeat("/"+strings.Repeat("e", 200), 2)
	b.refused(t, 2, "4000", "start", "--project", long)
}

// TestEscapeByPlaces puts HOME, project and state root in, above and behind each other.
func TestEscapeByPlaces(t *testing.T) {
	t.Parallel()
	b := served(t)
	w := filepath.Join(b.dir, "w")
	b.plant(t, map[string]string{".ssh/id": secret, "marker": "marker", "gone": "", "app/marker": "marker", "app/gone": "", w + "/p/marker": "marker", w + "/p/gone": ""})

	t.Run("the project is HOME", func(t *testing.T) {
		i := b.intrude(t, "--project", b.home)
		i.holds(b.home+"/.ssh", b.home+"/.ssh/id", b.home+"/.aws/credentials")
		b.run(t, 0, "rm", i.id)
		b.works(t, b.home, b.home)
	})
	t.Run("links lead to them", func(t *testing.T) {
		b.owner(t, `ln -s "$1/app" "$2/project"; ln -s "$1" "$2/home"; ln -s "$2" "$2/p/around"`, b.home, w)
		b.plant(t, map[string]string{"app/gone": ""})
		b.works(t, w+"/project", b.project)
		env := b.env
		b.env = append(b.env, "HOME="+w+"/home")
		defer func() { b.env = env }()
		b.owner(t, "rm -f app/made; touch app/gone")
		b.works(t, w+"/home/app", b.project)
		i := b.intrude(t, "--project", w+"/p/around/home/app")
		i.holds(b.home+"/.ssh/id", w+"/home/.ssh/id")
		if out := i.sh("echo $HOME; cat ~/app/marker"); out != w+"/home\nmarker" {
			t.Errorf("inside: %s", out)
		}
	})
	t.Run("beside HOME", func(t *testing.T) { b.works(t, w+"/p", w+"/p") })
	t.Run("on another file system", func(t *testing.T) {
		testbox.Need(t, "root")
		dir := w + "/mnt"
		if err := errors.Join(os.Mkdir(dir, 0o755), unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755")); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
		b.plant(t, map[string]string{dir + "/marker": "marker", dir + "/gone": ""})
		b.works(t, dir, dir)
	})
	t.Run("above", func(t *testing.T) {
		for _, project := range []string{"/", b.dir, filepath.Dir(b.home), b.dir + "/state", b.dir + "/state/" + "x", "/proc", "/proc/self/cwd", "/dev", "/sys"} {
			out, code := b.sbxd("start", "--project", project)
			if code != 7 && code != 10 && code != 11 {
				t.Errorf("start in %s ended with %d: %s", project, code, out)
			}
		}
		if out := b.run(t, 0, "list", "-q"); strings.Count(out, "\n") > 0 {
			t.Errorf("sessions: %s", out)
		}
	})
}

// TestEscapeByTheStateRoot names state roots that others can reach.
func TestEscapeByTheStateRoot(t *testing.T) {
	t.Parallel()
	b := served(t)
	serve := func(state string) (string, int) {
		cmd := exec.Command("timeout", append([]string{"10", b.cmd().Path, "serve", "--state", state, "--socket", b.dir + "/run/other.sock"}, b.runAs...)...)
		cmd.Env = b.env
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	real := filepath.Join(b.dir, "real")
	if err := errors.Join(os.MkdirAll(real+"/sub", 0o700), os.Symlink("real", b.dir+"/link"), os.Mkdir(b.dir+"/open", 0o777), os.Chmod(b.dir+"/open", 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{b.dir + "/link", b.dir + "/link/sub", b.dir + "/open", b.dir + "/link/made/later"} {
		if out, code := serve(state); code != 11 || !strings.Contains(out, state) {
			t.Errorf("serve with state %s ended with %d: %s", state, code, out)
		}
	}
	if os.Geteuid() == 0 {
		if out, code := serve(b.home + "/app"); code != 11 || !strings.Contains(out, "belongs") {
			t.Errorf("serve in another's directory ended with %d: %s", code, out)
		}
	}
	for _, state := range []string{"relative", "/", "//", real + "/../x", "~/../x"} {
		if out, code := serve(state); code != 2 {
			t.Errorf("serve with state %q ended with %d: %s", state, code, out)
		}
	}
	if left, _ := filepath.Glob(real + "/*"); len(left) != 1 {
		t.Errorf("through the link came %q", left)
	}
}
