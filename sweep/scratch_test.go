package sweep

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/session"
)

func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// TestProbesOfDeadProcesses: a directory of a probe goes when its lock is free and it is
// old, by both of which a living one is told; never by its name alone.
func TestProbesOfDeadProcesses(t *testing.T) {
	b := newBox(t)
	place := b.known().Scratch
	left, live, other := place+"/sbxd-probe-1", place+"/sbxd-probe-2", place+"/sbxd-probe-x"
	for _, dir := range []string{left + "/.probe-7/canary", live + "/a", other} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	must(t, os.WriteFile(place+"/sbxd-probe-3", nil, 0o600))
	must(t, os.Symlink(other, place+"/sbxd-probe-4"))
	f, err := os.Open(live)
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))

	items := b.run(false) // nothing is old enough
	if i := items["directory "+left]; i.Action != string(Keep) || i.Reason != "it is young" {
		t.Errorf("a young one: %+v", i)
	}
	if i := items["directory "+live]; i.Action != string(Keep) || i.Reason != "a probe uses it" {
		t.Errorf("one that lives: %+v", i)
	}
	b.aged()
	if there(left) {
		t.Error("what a dead probe left is there")
	}
	for _, path := range []string{live + "/a", other, place + "/sbxd-probe-3", place + "/sbxd-probe-4"} {
		if !there(path) {
			t.Errorf("%s is gone", path)
		}
	}
	must(t, f.Close())
	b.aged()
	if there(live) {
		t.Error("it is there though its process let go of it")
	}
}

// TestAProbeThatIsHeldAfterAll: what was planned to go is looked at again.
func TestAProbeThatIsHeldAfterAll(t *testing.T) {
	b := newBox(t)
	k := b.known()
	dir := k.Scratch + "/sbxd-probe-1"
	must(t, os.MkdirAll(dir, 0o700))
	seen, err := Look(t.Context(), k)
	must(t, err)
	seen.Now = seen.Now.Add(2 * Young)
	p := Make(seen, k)
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	got := Apply(t.Context(), p, k, Local{Store: b.store})
	if len(got) != 1 || got[0].Action != Keep || got[0].Err != nil || !there(dir) {
		t.Errorf("%+v", got)
	}
}

// TestOnlyWhatAProbeMadeIsRemovedElsewhere: a plan that was tampered with names something else.
func TestOnlyWhatAProbeMadeIsRemovedElsewhere(t *testing.T) {
	b := newBox(t)
	k := b.known()
	k.Scratch = t.TempDir()
	for _, path := range []string{k.Scratch, k.Scratch + "/x", k.Scratch + "/sbxd-probe-x", k.Scratch + "/a/sbxd-probe-1"} {
		must(t, os.MkdirAll(path, 0o700))
		e := Entry{Action: Remove, Kind: KindDirectory, Path: path, UID: os.Geteuid(), Session: session.ID("")}
		if got := Apply(t.Context(), Plan{Entries: []Entry{e}}, k, Local{Store: b.store}); got[0].Err == nil || !there(path) {
			t.Errorf("%s: %+v", path, got)
		}
	}
}
