package sweep

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/kernel"
	"github.com/sbxd/sbxd/session"
)

func TestPlanForStrays(t *testing.T) {
	a, in := sid("a"), session.DirID{Dev: 8, Ino: 99}
	dir := base + "/" + string(a)
	old := now.Add(-time.Hour)
	const set = "0123456789abcdef0123456789abcdef"
	view := Mount{Point: "/home/u", FSType: "overlay", Label: session.Label{ID: a, In: in}}
	stray := func(s *Seen, m Mount) {
		s.Bases[0].ID = in
		s.Namespaces = append(s.Namespaces, Namespace{Inode: 9, Mounts: []Mount{m}, Processes: []proc.ID{pid(7)}})
	}
	pins := func(s *Seen, names ...string) {
		for _, n := range names {
			s.Dirs = append(s.Dirs, Dir{Base: root + "/pins", Name: n, Changed: now, Record: true})
		}
	}
	tests := map[string]struct {
		set  func(s *Seen, k *Known)
		want []string
	}{
		"of a start that was never recorded": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Creating, 0)}
			stray(s, view)
		}, []string{
			"kill process process 7 (started at tick 70): its session's shim is gone",
			"stop record ID: it is recorded as creating and is dead; its work is kept",
		}},
		"of a start that answers": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Creating, 0)}
			s.Sockets = []Socket{{ID: a, Path: "/run/s/1", Answers: proc.Alive}}
			stray(s, view)
		}, []string{"keep record ID: whether it is alive is unknown"}},
		"of a stopped session": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Stopped, 0)}
			stray(s, view)
		}, []string{"kill process process 7 (started at tick 70): its session's shim is gone"}},
		"of a directory without a record": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			stray(s, view)
		}, []string{
			"kill process process 7 (started at tick 70): it has no record",
			"remove directory /st/sessions/ID: it has no record",
		}},
		"of a young directory": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: now}}
			stray(s, view)
		}, []string{"keep directory /st/sessions/ID: it is young"}},
		"of nothing": {
			func(s *Seen, _ *Known) { stray(s, view) },
			[]string{"kill process process 7 (started at tick 70): nothing else of its session is left"},
		},
		"of nothing, but busy": {func(s *Seen, k *Known) {
			stray(s, view)
			k.Busy = map[session.ID]bool{a: true}
		}, nil},
		"of another state root": {func(s *Seen, _ *Known) {
			other := view
			other.Label.In.Ino++
			stray(s, other)
		}, nil},
		"no program of ours there": {func(s *Seen, _ *Known) {
			stray(s, Mount{Point: "/x", FSType: "overlay", Layers: []string{dir + "/project/upper"}})
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
		}, []string{"keep directory /st/sessions/ID: it has no record, but it is in use"}},

		"placeholders that nobody uses": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Stopped, 0)}
			pins(s, set, "new-"+set+"-12", "old-"+set)
		}, []string{
			"remove directory /st/pins/" + set + ": no session of its user uses it",
			"remove directory /st/pins/old-" + set + ": its removal was decided",
			"keep directory /st/pins/new-" + set + "-12: it is young",
			"keep record ID: it is stopped",
		}},
		"placeholders of one that lives": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Alive, pid(100), pid(101), pid(102))
			pins(s, set)
		}, []string{"keep record ID: it is alive"}},
		"placeholders of one that is broken": {func(s *Seen, k *Known) {
			k.Records = []session.Record{{ID: a, State: session.Broken}}
			pins(s, set)
		}, []string{"keep record ID: it is broken and waits for a decision"}},
		"placeholders of another user's": {func(s *Seen, k *Known) {
			r := rec(a, session.Alive, 100)
			r.UID = 8
			k.Records = []session.Record{r}
			s.lives(proc.Alive, pid(100), pid(101), pid(102))
			pins(s, set)
		}, []string{"remove directory /st/pins/" + set + ": no session of its user uses it", "keep record ID: it is alive"}},
		"placeholders in a table": {func(s *Seen, _ *Known) {
			s.Bases = append(s.Bases, Base{Path: root + "/pins"})
			s.mount(9, Mount{Point: "/x", FSType: "overlay", Layers: []string{"/l", root + "/pins/" + set}})
			pins(s, set)
		}, nil},
		"placeholders of a stray": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Stopped, 0)}
			s.Bases = append(s.Bases, Base{Path: root + "/pins"})
			m := view
			m.Layers = []string{"/l", root + "/pins/" + set}
			stray(s, m)
			pins(s, set)
		}, []string{
			"remove directory /st/pins/" + set + ": no session of its user uses it",
			"kill process process 7 (started at tick 70): its session's shim is gone",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, k := world()
			tc.set(&s, &k)
			p := Make(s, k)
			if diff := cmp.Diff(tc.want, lines(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesOfPlaceholders(t *testing.T) {
	const set = "0123456789abcdef0123456789abcdef"
	for name, want := range map[string]bool{
		set: true, "old-" + set: true, "new-" + set + "-9": true, "": false, "new-": false, set + "-9": false,
		"old-" + set + "x": false, set[1:]: false, "../" + set[3:]: false, "0123456789ABCDEF0123456789abcdef": false,
	} {
		if isPins(name) != want {
			t.Errorf("isPins(%q) = %v", name, !want)
		}
	}
}

// TestAStrayIsEnded: a process has a labelled view of an orphan's upper directory in a
// namespace of its own, as one whose monitor and shim were killed at once.
func TestAStrayIsEnded(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	testbox.Need(t, "overlay-userns")
	b := newBox(t)
	orphan := b.data(sid("d"))
	gone := b.data(sid("e"))
	var strays []*exec.Cmd
	for _, dir := range []string{orphan, gone} {
		view, err := kernel.Backend{}.Mount(overlay.Spec{
			Lowers: []*os.File{openPath(t, b.runtime)}, Upper: openPath(t, dir+"/project/upper"), Work: openPath(t, dir+"/project/work"),
			Source: b.label(dir).String(),
		})
		must(t, err)
		point := t.TempDir()
		must(t, mnt.Move(int(view.Fd()), unix.AT_FDCWD, point))
		_ = view.Close()
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		must(t, cmd.Start())
		strays = append(strays, cmd)
		must(t, mnt.Detach(point))
	}
	must(t, os.RemoveAll(gone))
	bystander, _ := sleeper(t)
	for _, r := range b.aged() {
		if r.Err != nil {
			t.Errorf("%s %s: %v", r.Action, r.What, r.Err)
		}
	}
	for _, cmd := range strays {
		_ = cmd.Process.Signal(syscall.SIGTERM) // else the test would wait
		_ = cmd.Wait()
		if st := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGKILL {
			t.Errorf("a stray ended by %v, want to be killed", st.Signal())
		}
	}
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander: %v", err)
	}
	if _, err := os.Lstat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the orphan is still there: %v", err)
	}
}

// label is that of the session with the data directory dir.
func (b *box) label(dir string) session.Label {
	var st unix.Stat_t
	must(b.t, unix.Stat(dir+"/..", &st))
	id, _ := split(dir[len(dir)-12:])
	return session.Label{ID: id, In: session.DirID{Dev: st.Dev, Ino: st.Ino}}
}

func openPath(t *testing.T, name string) *os.File {
	t.Helper()
	must(t, os.MkdirAll(name, 0o700))
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	return os.NewFile(uintptr(fd), name)
}
