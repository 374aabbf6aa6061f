package session

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestTwoDaemonsOnOneRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	first := open(t, path, false)
	if !Locked(path) {
		t.Error("Locked: false under a holder")
	}
	_, err := OpenRoot(path)
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("the second: %v; want a busy error that names the root and the holder", err)
	}
	first.Close()
	if Locked(path) {
		t.Error("Locked: true without a holder")
	}
	open(t, path, false)
}

func TestLockOfADeadDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), holdRoot+"="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !Locked(path); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the other process never took the lock")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	open(t, path, false)
}

func TestRootIsRefused(t *testing.T) {
	dir := t.TempDir()
	mk := func(name string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(p, 0o700), os.Chmod(p, mode)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	real := mk("real", 0o700)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		want error
	}{
		"a link":           {link, ErrDenied},
		"behind a link":    {filepath.Join(link, "state"), ErrDenied},
		"group may enter":  {mk("loose", 0o750), ErrDenied},
		"others may write": {mk("looser", 0o707), ErrDenied},
		"a file":           {file, ErrDenied},
		"below a file":     {file + "/state", ErrDenied},
		"too long":         {"/" + strings.Repeat("x", 4000), ErrRefused},
		"relative":         {"state", ErrRefused},
		"dots":             {dir + "/a/../b", ErrRefused},
		"NUL":              {dir + "/a\x00b", ErrRefused},
		"slash":            {"/", ErrRefused},
		"empty":            {"", ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := openRoot(c.path, false)
			if err == nil {
				r.Close()
				t.Fatal("it was opened")
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v; want %v", err, c.want)
			}
		})
	}
	if entries, err := os.ReadDir(real); err != nil || len(entries) != 0 {
		t.Errorf("a refused root was written to: %v, %v", entries, err)
	}
}

func TestRootOfSomebodyElse(t *testing.T) {
	testbox.Need(t, "root")
	uid, gid := testbox.AsUser(t)
	path := filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, uid, gid)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRoot(path); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "uid 12345") {
		t.Errorf("%v; want a refusal that names the owner", err)
	}
}
