package sweep

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/kernel"
	"github.com/sbxd/sbxd/session"
)

func TestDeadSessionsStopAndLiveOnesStay(t *testing.T) {
	b := newBox(t)
	_, alive := sleeper(t)
	stranger, strangerID := sleeper(t)
	guest, guestID := sleeper(t)
	reused := strangerID
	reused.Start-- // the number of a stranger, with another start
	b.create(sid("a"), session.Alive, session.Running{Shim: alive})
	dir := b.create(sid("b"), session.Alive, session.Running{Shim: deadID(t), Bwrap: reused, Guest: guestID})
	must(t, os.WriteFile(dir+"/project/upper/f", []byte("work"), 0o600))
	b.create(sid("c"), session.Stopped, session.Running{})
	if got := b.run(true); got["record "+string(sid("b"))].Action != "stop" || b.state(sid("b")) != session.Alive {
		t.Errorf("dry run: %+v, state %s", got, b.state(sid("b")))
	}
	items := b.run(false)
	for _, i := range items {
		if i.Error != "" {
			t.Errorf("%s %s: %s", i.Action, i.What, i.Error)
		}
	}
	for id, want := range map[session.ID]session.State{sid("a"): session.Alive, sid("b"): session.Stopped, sid("c"): session.Stopped} {
		if got := b.state(id); got != want {
			t.Errorf("session %s is %s, want %s", id, got, want)
		}
	}
	if got, err := os.ReadFile(dir + "/project/upper/f"); err != nil || string(got) != "work" {
		t.Errorf("the dead session's work reads %q, %v", got, err)
	}
	if guestID.Alive() != proc.Dead {
		t.Error("the guest of the dead session was not killed")
	}
	if strangerID.Alive() != proc.Alive {
		t.Error("a stranger with a recorded number was killed")
	}
	if alive.Alive() != proc.Alive {
		t.Error("the shim of a live session was killed")
	}
	_, _ = stranger, guest
}

func TestOrphansAreRemovedAndWorkIsArchived(t *testing.T) {
	b := newBox(t)
	empty := b.data(sid("d"))
	must(t, os.Mkdir(empty+"/000", 0))
	full := b.data(sid("e"))
	must(t, os.WriteFile(full+"/project/upper/f", []byte("work"), 0o600))
	foreign := filepath.Dir(empty) + "/notours"
	must(t, os.Mkdir(foreign, 0o700))
	lands, probe := b.store.LandsDir(os.Geteuid()), b.store.Path()+"/.probe-77"
	must(t, os.MkdirAll(lands+"/new-"+string(sid("g"))+"/objects", 0o700))
	must(t, os.MkdirAll(lands+"/"+string(sid("g")), 0o700))
	must(t, os.MkdirAll(probe+"/upper", 0o700))
	must(t, os.Symlink(b.runtime, filepath.Dir(empty)+"/"+string(sid("f"))))
	if b.store.System() {
		b.run(true) // the data directories of root itself are below 0/, as those of any uid
	}
	b.run(false)
	if _, err := os.Lstat(empty); err != nil {
		t.Errorf("a young directory is gone: %v", err)
	}
	for _, r := range b.aged() {
		if r.Err != nil {
			t.Errorf("%s %s: %v", r.Action, r.What, r.Err)
		}
	}
	for path, want := range map[string]bool{
		lands + "/new-" + string(sid("g")): false, lands + "/" + string(sid("g")): true, probe: false, b.store.Path(): true,
		empty: false, full: false, foreign: true, filepath.Dir(empty) + "/" + string(sid("f")): true,
	} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", path, err == nil, want)
		}
	}
	got, err := filepath.Glob(escape(b.store.Of(os.Geteuid())) + "/archive/" + string(sid("e")) + "-*/project/upper/f")
	if err != nil || len(got) != 1 {
		t.Errorf("archive: %q, %v", got, err)
	}
}

func escape(s string) string { return strings.ReplaceAll(s, `\`, `\\`) }

func TestMountsAreDetachedBeforeAnythingIsRemoved(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	b := newBox(t)
	outside := t.TempDir()
	must(t, os.WriteFile(outside+"/f", []byte("precious"), 0o600))
	orphan := b.data(sid("d"))
	must(t, os.MkdirAll(orphan+"/m n", 0o700))
	must(t, unix.Mount(outside, orphan+"/m n", "", unix.MS_BIND, ""))
	must(t, os.Mkdir(outside+"/inner", 0o700))
	must(t, unix.Mount("tmpfs", orphan+"/m n/inner", "tmpfs", 0, "size=4k"))
	must(t, unix.Mount("tmpfs", orphan+"/m n", "tmpfs", 0, "size=4k"))
	neighbour := filepath.Dir(filepath.Dir(orphan)) + "/sessions-other/" + string(sid("d"))
	must(t, os.MkdirAll(neighbour, 0o700))
	must(t, unix.Mount("tmpfs", neighbour, "tmpfs", 0, "size=4k"))
	defer func() { _ = unix.Unmount(neighbour, unix.MNT_DETACH) }()
	for _, r := range b.aged() {
		if r.Err != nil {
			t.Errorf("%s %s: %v", r.Action, r.What, r.Err)
		}
	}
	if left := testbox.MountsBelow(orphan); len(left) != 0 {
		t.Errorf("mounts left: %q", left)
	}
	if _, err := os.Lstat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the orphan is still there: %v", err)
	}
	if got, err := os.ReadFile(outside + "/f"); err != nil || string(got) != "precious" {
		t.Errorf("the file behind the mount reads %q, %v", got, err)
	}
	if left := testbox.MountsBelow(neighbour); len(left) != 1 {
		t.Errorf("the neighbour's mounts: %q, want one", left)
	}
}

func TestAnUpperInUseStays(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	testbox.Need(t, "overlay-userns")
	b := newBox(t)
	orphan := b.data(sid("d"))
	view, err := kernel.Backend{}.Mount(overlay.Spec{
		Lowers: []*os.File{openPath(t, b.runtime)}, Upper: openPath(t, orphan+"/project/upper"), Work: openPath(t, orphan+"/project/work"),
	})
	must(t, err)
	point := t.TempDir()
	must(t, mnt.Move(int(view.Fd()), unix.AT_FDCWD, point))
	_ = view.Close()
	tab, err := readTable("self")
	must(t, err)
	last := tab.Mounts[len(tab.Mounts)-1]
	if last.FSType != "overlay" || !strings.Contains(strings.Join(last.Layers, " "), "z/") {
		t.Logf("this kernel does not name the layers: %q", last.Layers)
	} else {
		for _, r := range b.aged() {
			if r.Action != Keep {
				t.Errorf("%s %s while its upper is mounted", r.Action, r.What)
			}
		}
	}
	must(t, mnt.Detach(point))
	b.aged()
	if _, err := os.Lstat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the unmount the orphan is still there: %v", err)
	}
}

func TestALinkOnTheWayToAMountIsNotFollowed(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(dir+"/real/m", 0o700))
	must(t, unix.Mount("tmpfs", dir+"/real/m", "tmpfs", 0, "size=4k"))
	defer func() { _ = unix.Unmount(dir+"/real/m", unix.MNT_DETACH) }()
	must(t, os.Symlink("real", dir+"/link"))
	must(t, os.Symlink("real/m", dir+"/m"))
	for _, p := range []string{dir + "/link/m", dir + "/m"} {
		if err := detach(p); err == nil {
			t.Logf("detach %s: nothing done", p)
		}
		if left := testbox.MountsBelow(dir); len(left) != 1 {
			t.Fatalf("detach %s went through a link", p)
		}
	}
}

func TestDeadSocketsGoAndServedOnesStay(t *testing.T) {
	b := newBox(t)
	listen := func(id session.ID) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("%s/s/%s.sock", b.runtime, id), Net: "unix"})
		must(t, err)
		l.SetUnlinkOnClose(false)
		return l
	}
	dead, alive := listen(sid("a")), listen(sid("b"))
	must(t, dead.Close())
	defer func() { _ = alive.Close() }()
	must(t, os.WriteFile(b.runtime+"/s/"+string(sid("c"))+".sock", nil, 0o600))
	must(t, os.WriteFile(b.runtime+"/s/other", nil, 0o600))
	for _, r := range b.aged() {
		if r.Err != nil {
			t.Errorf("%s %s: %v", r.Action, r.What, r.Err)
		}
	}
	left, err := os.ReadDir(b.runtime + "/s")
	must(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), fmt.Sprintf("%s.sock %s.sock other", sid("b"), sid("c")); got != want {
		t.Errorf("left %q, want %q", got, want)
	}
}

// failing is a Host on which one session cannot be saved.
type failing struct {
	Local
	bad session.ID
}

func (f failing) Save(r session.Record) error {
	if r.ID == f.bad {
		return errors.New("disk full")
	}
	return f.Local.Save(r)
}

func TestAFailureStopsOnlyItsOwnSession(t *testing.T) {
	b := newBox(t)
	b.create(sid("a"), session.Alive, session.Running{Shim: deadID(t)})
	b.create(sid("b"), session.Alive, session.Running{Shim: deadID(t)})
	k := b.known()
	seen, err := Look(t.Context(), k)
	must(t, err)
	var failed []session.ID
	for _, r := range Apply(t.Context(), Make(seen, k), k, failing{Local{Store: b.store}, sid("a")}) {
		if r.Err != nil {
			failed = append(failed, r.Session)
		}
	}
	if len(failed) != 1 || failed[0] != sid("a") || b.state(sid("b")) != session.Stopped {
		t.Errorf("failed: %q, other session is %s", failed, b.state(sid("b")))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Look(ctx, k); !errors.Is(err, context.Canceled) {
		t.Errorf("Look under an ended context: %v", err)
	}
}
