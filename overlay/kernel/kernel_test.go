package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ProbeStage {
		ProbeMain()
		return
	}
	testbox.Main(m)
}

func TestProbeWorksAndLeavesNothing(t *testing.T) {
	testbox.Need(t, "overlay-userns")
	dir := t.TempDir()
	if err := (Backend{}).Probe(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestProbeNamesTheStepAndTheRemedy(t *testing.T) {
	testbox.Need(t, "overlay-userns")
	var e *overlay.ProbeError
	err := (Backend{}).Probe("/proc/self")
	if !errors.As(err, &e) || e.Step != "directory" || !strings.Contains(e.Remedy, "SBXD_STATE") {
		t.Errorf("probe in /proc: %v, want step directory with a remedy", err)
	}
}

// layer makes a directory below dir and opens it as a layer.
func layer(t *testing.T, dir string) *os.File {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return openPath(t, dir)
}

func openPath(t *testing.T, dir string) *os.File { return openFile(t, dir, unix.O_DIRECTORY) }

func openFile(t *testing.T, dir string, flags int) *os.File {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func spec(t *testing.T, dir string) overlay.Spec {
	t.Helper()
	return overlay.Spec{
		Lowers: []*os.File{layer(t, dir+"/lower"), layer(t, dir+"/pins")},
		Upper:  layer(t, dir+"/upper"), Work: layer(t, dir+"/work"),
	}
}

func TestEveryWayMountsTheSameView(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			dir := t.TempDir()
			s := spec(t, dir)
			for _, n := range []string{"lower/a", "pins/b"} {
				if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			fd, err := mount(s, w)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			view := mnt.Name(fd)
			for name, want := range map[string]string{"a": "lower/a", "b": "pins/b"} {
				if got, err := os.ReadFile(view + "/" + name); err != nil || string(got) != want {
					t.Errorf("%s = %q, %v, want %q", name, got, err, want)
				}
			}
			if err := os.WriteFile(view+"/c", nil, 0o644); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(dir + "/upper/c"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOptionsAreThoseOfADecodableUpper(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := t.TempDir()
	view, err := Backend{}.Mount(spec(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	if err := mnt.Move(int(view.Fd()), unix.AT_FDCWD, layer(t, dir+"/view").Name()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if err := mnt.Detach(dir + "/view"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, dir+"/view ") {
			continue
		}
		for _, want := range []string{"nosuid,nodev", " overlay sbxd ", "userxattr", "redirect_dir=nofollow"} {
			if !strings.Contains(line, want) {
				t.Errorf("mount table has no %q", want)
			}
		}
		return
	}
	t.Error("the view is not in the mount table")
}

func TestMountErrorsNameStepAndLayer(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := t.TempDir()
	s := spec(t, dir)
	var e *overlay.MountError
	_, err := Backend{}.Mount(overlay.Spec{Lowers: s.Lowers, Upper: s.Upper})
	if err == nil || !strings.Contains(err.Error(), "needs a work directory") {
		t.Errorf("no work: %v", err)
	}
	good := s.Lowers[1]
	s.Lowers[1] = openFile(t, "/etc/hostname", 0)
	if _, err = (Backend{}).Mount(s); !errors.As(err, &e) || !strings.HasPrefix(e.Target, "lower") {
		t.Errorf("a file as lower: %v, want a *MountError of a lower", err)
	}
	s.Lowers[1] = good
	s.Work = openPath(t, "/proc/self")
	if _, err = (Backend{}).Mount(s); !errors.As(err, &e) {
		t.Errorf("work in /proc: %v, want a *MountError", err)
	}
}
