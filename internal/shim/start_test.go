package shim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// sessionBox is a record and a launch of a session of its own, as the unprivileged user.
func sessionBox(t *testing.T) (*Launcher, session.Record, session.Launch) {
	t.Helper()
	testbox.Need(t, "bwrap", "overlay-userns")
	dir := testbox.TempDir(t)
	uid, gid := testbox.AsUser(t)
	for _, p := range []string{"home/app", "home/.ssh", "state/sessions/abcdefghijkl", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "home/.ssh/id"), []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error { return os.Lchown(p, uid, gid) })
	l := &Launcher{}
	t.Cleanup(l.Close)
	place := func(p string) session.Place {
		p = filepath.Join(dir, p)
		var st syscall.Stat_t
		if err := syscall.Stat(p, &st); err != nil {
			t.Fatal(err)
		}
		return session.Place{Spelled: p, Real: p, Dev: st.Dev, Ino: st.Ino}
	}
	r := session.Record{ID: "abcdefghijkl", UID: uid, GID: gid, Project: place("home/app"), Home: place("home"), Network: "off", Created: time.Now()}
	return l, r, session.Launch{Dir: filepath.Join(dir, "state/sessions/abcdefghijkl"), Socket: filepath.Join(dir, "run", "s.sock")}
}

func TestStartAndStop(t *testing.T) {
	l, r, launch := sessionBox(t)
	for range 3 {
		t0 := time.Now()
		running, err := l.Start(t.Context(), r, launch)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v %+v", time.Since(t0), running)
		r.Running = running
		if err := l.Stop(t.Context(), r, launch); err != nil {
			t.Fatal(err)
		}
		launch.Resume = true

	}
}
