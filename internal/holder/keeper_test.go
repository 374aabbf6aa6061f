package holder

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) { testbox.Main(m) }

// watched returns a keeper that watches a directory for two files.
func watched(t *testing.T) (k *keeper, a, b *followed, path string) {
	t.Helper()
	path, k = t.TempDir(), &keeper{}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close(); _ = unix.Close(k.inotify) })
	a, b = &followed{name: "a", watch: k.watch(dir)}, &followed{name: "b", watch: k.watch(dir)}
	if a.watch < 0 || a.watch != b.watch {
		t.Fatalf("watches %d and %d, want one for the directory", a.watch, b.watch)
	}
	return k, a, b, path
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEventsTellWhichFile(t *testing.T) {
	k, a, b, dir := watched(t)
	write(t, dir+"/a.new")
	if changed := k.events(); changed(a) || changed(b) {
		t.Error("a file beside it concerns neither")
	}
	if err := os.Rename(dir+"/a.new", dir+"/a"); err != nil {
		t.Fatal(err)
	}
	if changed := k.events(); !changed(a) || changed(b) {
		t.Error("a rename concerns the file of the name, and no other")
	}
	write(t, dir+"/b")
	if changed := k.events(); changed(a) || !changed(b) {
		t.Error("a file that is made concerns the one of the name, and no other")
	}
	if changed := k.events(); changed(a) || changed(b) {
		t.Error("nothing happened, but it concerns somebody")
	}
}

// TestLostEventsMeanEveryFile: the kernel drops what is not read in time.
func TestLostEventsMeanEveryFile(t *testing.T) {
	k, a, _, dir := watched(t)
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || most > 1<<17 {
		t.Skipf("needs a queue that can be filled, has %s", text)
	}
	names := []string{filepath.Join(dir, "x"), filepath.Join(dir, "y")}
	write(t, names[0])
	for n := range most {
		if err := os.Rename(names[n%2], names[(n+1)%2]); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/a")
	for range most {
		if k.events()(a) {
			return
		}
	}
	t.Error("a file came while events were lost, and nobody looks at it")
}
