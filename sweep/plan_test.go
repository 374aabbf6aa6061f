package sweep

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

func TestPlan(t *testing.T) {
	a := sid("a")
	dir := base + "/" + string(a)
	old := now.Add(-time.Hour)
	tests := map[string]struct {
		set  func(s *Seen, k *Known)
		want []string
	}{
		"alive": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Alive, pid(100), pid(101), pid(102))
			s.mount(100, Mount{Point: "/home", FSType: "overlay", Layers: []string{dir + "/home/upper"}})
		}, []string{"keep record ID: it is alive"}},
		"unknown": {func(_ *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
		}, []string{"keep record ID: whether it is alive is unknown"}},
		"dead": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Dead, pid(100), pid(101), pid(102))
		}, []string{"stop record ID: it is recorded as running and is dead; its work is kept"}},
		"another boot": {func(_ *Seen, k *Known) {
			r := rec(a, session.Frozen, 100)
			r.Boot = "another"
			k.Records = []session.Record{r}
		}, []string{"stop record ID: it is recorded as frozen and is dead; its work is kept"}},
		"guest left over": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Dead, pid(100), pid(101))
			s.lives(proc.Alive, pid(102))
		}, []string{
			"kill process process 102 (started at tick 1020): its session's shim is gone",
			"stop record ID: it is recorded as running and is dead; its work is kept",
		}},
		"guest unknown": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Dead, pid(100), pid(101))
		}, []string{"keep record ID: whether it is alive is unknown"}},
		"namespace left over": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Stopped, 100)}
			s.lives(proc.Dead, pid(100), pid(101), pid(102))
			s.Namespaces = append(s.Namespaces, Namespace{
				Inode: 100, Processes: []proc.ID{pid(140)},
				Mounts: []Mount{{Point: guestPoints[0]}, {Point: "/h", FSType: "overlay", Layers: []string{dir + "/home/upper"}}},
			})
		}, []string{"kill process process 140 (started at tick 1400): its session's shim is gone"}},
		"namespace number used again": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Dead, pid(100), pid(101), pid(102))
			s.Namespaces = append(s.Namespaces, Namespace{Inode: 100, Processes: []proc.ID{pid(140)}, Mounts: []Mount{{Point: "/x"}}})
		}, []string{"stop record ID: it is recorded as running and is dead; its work is kept"}},
		"namespace older than the shim": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Dead, pid(100), pid(101), pid(102))
			s.Namespaces = append(s.Namespaces, Namespace{Inode: 100, Processes: []proc.ID{pid(40), pid(140)}, Mounts: []Mount{{Point: guestPoints[0]}}})
		}, []string{"stop record ID: it is recorded as running and is dead; its work is kept"}},
		"upper still mounted elsewhere": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Dead, pid(100), pid(101), pid(102))
			s.mount(7, Mount{Point: "/h", FSType: "overlay", Layers: []string{dir + "/home/upper"}})
		}, []string{"keep record ID: whether it is alive is unknown"}},
		"stopped": {func(_ *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Stopped, 0)}
		}, []string{"keep record ID: it is stopped"}},
		"creating and young": {func(_ *Seen, k *Known) {
			r := rec(a, session.Creating, 0)
			r.Created = now.Add(-Young + time.Second)
			k.Records = []session.Record{r}
		}, []string{"keep record ID: it is young"}},
		"creating for long": {func(_ *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Creating, 0)}
		}, []string{"stop record ID: it is recorded as creating and is dead; its work is kept"}},
		"busy": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			k.Busy = map[session.ID]bool{a: true}
			s.lives(proc.Dead, pid(100), pid(101), pid(102))
			s.Sockets = []Socket{{ID: a, Path: "/run/sbxd/s/x", Changed: old, Answers: proc.Dead}}
		}, []string{"keep record ID: something is being done with it"}},
		"broken": {func(s *Seen, k *Known) {
			k.Records = []session.Record{{ID: a, State: session.Broken, Reason: "torn"}}
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old, Record: true}}
		}, []string{"keep record ID: it is broken and waits for a decision"}},
		"dead socket of a stopped session": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Stopped, 0)}
			s.Sockets = []Socket{{ID: a, Path: "/run/sbxd/s/ID.sock", Changed: now, Answers: proc.Dead}}
		}, []string{"remove socket /run/sbxd/s/ID.sock: its session is dead (recorded as stopped)", "keep record ID: it is stopped"}},
		"sockets without a session": {func(s *Seen, _ *Known) {
			s.Sockets = []Socket{
				{ID: a, Path: "/run/s/1", Changed: old, Answers: proc.Dead},
				{ID: sid("b"), Path: "/run/s/2", Changed: now, Answers: proc.Dead},
				{ID: sid("c"), Path: "/run/s/3", Changed: old, Answers: proc.Alive},
				{ID: sid("d"), Path: "/run/s/4", Changed: old, Answers: proc.Unknown},
			}
		}, []string{
			"remove socket /run/s/1: no session has it",
			"keep socket /run/s/2: it is young",
			"keep socket /run/s/3: it is served, though no session has it",
			"keep socket /run/s/4: it is served, though no session has it",
		}},
		"directory without a record": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
		}, []string{"remove directory /st/sessions/ID: it has no record"}},
		"directory without a record, read as broken": {func(s *Seen, k *Known) {
			k.Records = []session.Record{{ID: a, State: session.Broken}}
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old, Work: true}}
		}, []string{"archive directory /st/sessions/ID: it has no record but holds work that has not landed"}},
		"directory without a record, young": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: now.Add(-Young + time.Second)}}
		}, []string{"keep directory /st/sessions/ID: it is young"}},
		"directory without a record, served": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			s.Sockets = []Socket{{ID: a, Path: "/run/s/1", Answers: proc.Unknown}}
		}, []string{"keep directory /st/sessions/ID: it may be alive", "keep socket /run/s/1: it is served, though no session has it"}},
		"half made and half removed": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{
				{Base: base, Name: "new-" + string(a), Changed: old},
				{Base: base, Name: "old-" + string(a), Changed: old, Record: true, Work: true},
				{Base: base, Name: "old-" + string(sid("b")), Changed: now, Record: true},
			}
		}, []string{
			"remove directory /st/sessions/new-ID: it was never finished",
			"remove directory /st/sessions/old-ID: its removal was decided",
			"keep directory /st/sessions/old-ID: it is young",
		}},
		"leftovers of landings and probes": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{
				{Base: root + "/lands", Name: "new-" + string(a), Changed: old},
				{Base: root + "/lands", Name: "old-" + string(sid("b")), Changed: old},
				{Base: root + "/lands", Name: "new-" + string(sid("c")), Changed: now},
				{Base: root, Name: ".probe-12", Changed: old, Work: true},
				{Base: root, Name: ".probe-13", Changed: now},
			}
		}, []string{
			"remove directory /st/.probe-12: a probe left it",
			"keep directory /st/.probe-13: it is young",
			"remove directory /st/lands/new-ID: it was never finished",
			"remove directory /st/lands/old-ID: its removal was decided",
			"keep directory /st/lands/new-ID: it is young",
		}},
		"data of a retired record": {func(s *Seen, k *Known) {
			k.System = true
			s.Bases = []Base{{Path: "/st/7/sessions"}, {Path: "/st/root/sessions"}}
			s.Dirs = []Dir{
				{Base: "/st/7/sessions", Name: string(a), UID: 7, Changed: old, Work: true},
				{Base: "/st/root/sessions", Name: "old-" + string(a), Changed: old, Record: true},
			}
		}, []string{
			"remove directory /st/7/sessions/ID: it has no record",
			"remove directory /st/root/sessions/old-ID: its removal was decided",
		}},
		"mounts of ours": {func(s *Seen, k *Known) {
			k.Records = []session.Record{rec(a, session.Alive, 100)}
			s.lives(proc.Dead, pid(100), pid(101), pid(102))
			s.mount(1, Mount{Point: dir + "/m"})
			s.mount(1, Mount{Point: dir + "/m"})
			s.mount(1, Mount{Point: dir + "/m/inner"})
			s.mount(1, Mount{Point: dir + "/n n"})
			s.mount(1, Mount{Point: base + "-other/" + string(a)})
			s.mount(1, Mount{Point: base})
		}, []string{
			"unmount mount /st/sessions/ID/n n: its session is dead",
			"unmount mount /st/sessions/ID/m: its session is dead",
			"unmount mount /st/sessions/ID/m: its session is dead",
			"stop record ID: it is recorded as running and is dead; its work is kept",
		}},
		"directory mounted in another namespace": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			s.mount(9, Mount{Point: dir + "/m"})
		}, []string{"keep directory /st/sessions/ID: it has no record, but it is in use"}},
		"directory shown elsewhere": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			s.mount(9, Mount{Point: "/x", Root: dir + "//deleted", Major: 8, Minor: 1})
		}, []string{"keep directory /st/sessions/ID: it has no record, but it is in use"}},
		"same path on another device": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			s.mount(9, Mount{Point: "/x", Root: dir, Major: 8, Minor: 2})
		}, []string{"remove directory /st/sessions/ID: it has no record"}},
		"directory in an overlay": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			s.mount(9, Mount{Point: "/x", FSType: "overlay", Layers: []string{"/l", dir + "/project/upper"}})
		}, []string{"keep directory /st/sessions/ID: it has no record, but it is in use"}},
		"mountpoint removed": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			s.mount(1, Mount{Point: dir + "/m" + deleted})
		}, []string{"keep directory /st/sessions/ID: it has no record, but it is in use"}},
		"our table half read": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old}}
			s.Namespaces[0].Partial = true
		}, []string{"keep directory /st/sessions/ID: it has no record, but it is in use"}},
		"mount of an orphan": {func(s *Seen, _ *Known) {
			s.Dirs = []Dir{{Base: base, Name: string(a), Changed: old, Work: true}}
			s.mount(1, Mount{Point: dir + "/m"})
		}, []string{
			"unmount mount /st/sessions/ID/m: it has no record",
			"archive directory /st/sessions/ID: it has no record but holds work that has not landed",
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
			for _, e := range p.Entries {
				if e.Proof == "" && e.Kind != KindRecord {
					t.Errorf("%s %s has no proof", e.Action, e.What)
				}
			}
		})
	}
}

func TestOneSessionStopsNoOther(t *testing.T) {
	s, k := world()
	k.Records = []session.Record{
		{ID: sid("a"), State: session.Broken, Reason: "torn"}, rec(sid("b"), session.Alive, 100), rec(sid("c"), session.Alive, 200),
	}
	s.lives(proc.Alive, pid(100))
	s.lives(proc.Dead, pid(200), pid(201), pid(202))
	got := map[session.ID]Action{}
	for _, e := range Make(s, k).Entries {
		got[e.Session] = e.Action
	}
	want := map[session.ID]Action{sid("a"): Keep, sid("b"): Keep, sid("c"): Stop}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestTheArchiveNamesSessionAndTime(t *testing.T) {
	s, k := world()
	k.System = true
	s.Bases = []Base{{Path: "/st/7/sessions"}}
	s.Dirs = []Dir{{Base: "/st/7/sessions", Name: string(sid("a")), UID: 7, Changed: now.Add(-time.Hour), Work: true}}
	p := Make(s, k)
	if len(p.Entries) != 1 || p.Entries[0].To != "/st/7/archive/aaaaaaaaaaaa-20261130T120000Z" || p.Entries[0].UID != 7 {
		t.Errorf("entries = %+v", p.Entries)
	}
}

func TestHiddenProcessesAreCounted(t *testing.T) {
	seen, known := world()
	seen.Faults = []Fault{hiddenFault(1), hiddenFault(2)}
	want := []Fault{
		{"the mount namespace of 1 process", "even root may not look at it here, as in a container"},
		{"the mount namespaces of 2 processes", "even root may not look at them here, as in a container"},
	}
	if d := cmp.Diff(want, Make(seen, known).Faults); d != "" {
		t.Error(d)
	}
}
