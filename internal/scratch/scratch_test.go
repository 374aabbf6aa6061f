package scratch

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// placeEnv tells a copy of this test where to make a directory and wait for its end.
const placeEnv = "SBXD_SCRATCH_IN"

func TestMain(m *testing.M) {
	if place := os.Getenv(placeEnv); place != "" {
		if _, err := makeIn(place); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("made\n")
		select {}
	}
	testbox.Main(m)
}

func held(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	is, err := Held(f)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestADirectoryIsHeldUntilItsProcessIsDead(t *testing.T) {
	place := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{placeEnv + "=" + place}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(place + "/*")
	if err != nil || len(found) != 1 || !Named(filepath.Base(found[0])) {
		t.Fatalf("it made %q, %v", found, err)
	}
	if !held(t, found[0]) {
		t.Error("it lives and has no lock")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if held(t, found[0]) {
		t.Error("it is dead and holds the lock")
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	d, err := Make()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(d.Path, "/tmp/") || !held(t, d.Path) {
		t.Errorf("%s is not held, or elsewhere", d.Path)
	}
	if err := errors.Join(os.Mkdir(d.Path+"/a", 0o700), os.WriteFile(d.Path+"/a/b", nil, 0o600), d.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", d.Path, err)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"sbxd-probe-1067703059": true, "sbxd-probe-": false, "sbxd-probe-1x": false, "sbxd-probe": false, "x-sbxd-probe-1": false, "": false,
	} {
		if Named(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}
