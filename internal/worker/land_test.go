package worker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/execlog"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/land"
	"github.com/sbxd/sbxd/session"
)

// bench is a session without processes: what it wrote is put into its upper directory
// by hand.
type bench struct {
	t       *testing.T
	s       Starter
	w       session.Work
	project string
	upper   string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := testbox.TempDir(t)
	b := &bench{t: t, project: filepath.Join(dir, "home/project")}
	home := filepath.Join(dir, "home")
	b.sh("mkdir -p " + b.project + "; cd " + b.project + `; printf 'one\ntwo\n' >a; echo gone >d; mkdir .git; echo secret >.env`)
	r := owner(t)
	r.ID, r.State, r.Project.Spelled, r.Home.Spelled = session.NewID(), session.Stopped, b.project, home
	b.w = session.Work{Record: r, Root: filepath.Join(dir, "state"), Dir: filepath.Join(dir, "state/sessions/x"), Lands: filepath.Join(dir, "state/lands")}
	b.sh("mkdir -p " + b.w.Root + "/sessions")
	var p session.Places
	must(t, b.s.Do(t.Context(), session.WorkPlaces, b.w, &p))
	b.w.Record.Project, b.w.Record.Home = p.Project, p.Home
	b.w.Record.Given.Masks = []string{".env"}
	must(t, b.s.Do(t.Context(), session.WorkPrepare, b.w, nil))
	b.w.Since = land.Clock()
	must(t, b.s.Do(t.Context(), session.WorkCapture, b.w, nil))
	b.upper = filepath.Join(b.w.Dir, "project/upper")
	return b
}

// sh runs a script as the session's user.
func (b *bench) sh(script string) string {
	b.t.Helper()
	cmd := testbox.UserCommand(b.t, "sh", "-ec", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

func (b *bench) do(op string, out any, change func(*session.Work)) error {
	w := b.w
	if change != nil {
		change(&w)
	}
	return b.s.Do(b.t.Context(), op, w, out)
}

// edit is what an agent does: a change, a new file, a deletion, and what never lands.
func (b *bench) edit() {
	b.t.Helper()
	b.sh("cd " + b.upper + `; printf 'one\nTWO\n' >a; echo new >n; mkfifo f; mkdir .git; echo x >.git/hook; echo stolen >.env; ` + whiteout("d"))
}

// whiteout makes overlayfs's mark of a deleted name, which any user may make in a
// directory of its own (Linux 5.8).
func whiteout(name string) string { return "mknod " + name + " c 0 0" }

func TestDiffLandUndo(t *testing.T) {
	testbox.Need(t, "userns", "sh")
	b := newBench(t)
	var d api.Diff
	must(t, b.do(session.WorkDiff, &d, nil))
	if len(d.Changes) != 0 {
		t.Errorf("before any change: %+v", d)
	}
	if err := b.do(session.WorkLand, nil, func(w *session.Work) { w.Land.Yes = true }); code(err) != api.ExitNothing {
		t.Errorf("landing nothing: %v", err)
	}
	b.edit()
	must(t, b.do(session.WorkDiff, &d, func(w *session.Work) { w.Text = true }))
	got := map[string]string{}
	for _, c := range d.Changes {
		got[c.Path] = c.Op
	}
	if len(got) != 3 || got["a"] != "modify" || got["n"] != "add" || got["d"] != "delete" || len(d.Dropped) != 3 {
		t.Errorf("changes %v, dropped %+v", got, d.Dropped)
	}
	if !strings.Contains(d.Text, "-two") || !strings.Contains(d.Text, "+TWO") || strings.Contains(d.Text, "stolen") {
		t.Errorf("text:\n%s", d.Text)
	}
	var plan, done api.Landing
	must(t, b.do(session.WorkLand, &plan, func(w *session.Work) { w.Land.DryRun = true }))
	if plan.State != "planned" || plan.Changeset != d.ID || len(plan.Changes) != 3 {
		t.Errorf("plan: %+v", plan)
	}
	for name, c := range map[string]struct {
		req  api.LandRequest
		code int
	}{
		"nobody agreed":  {api.LandRequest{}, api.ExitGate},
		"another review": {api.LandRequest{Expect: "00", Yes: true}, api.ExitDrift},
	} {
		if err := b.do(session.WorkLand, nil, func(w *session.Work) { w.Land = c.req }); code(err) != c.code {
			t.Errorf("%s: %v; want code %d", name, err, c.code)
		}
	}
	before := b.tree()
	must(t, b.do(session.WorkLand, &done, func(w *session.Work) { w.Land.Expect, w.Who = d.ID, "/run/x.sock" }))
	if done.State != "landed" || done.ID == "" || len(done.Changes) != 3 {
		t.Errorf("landed: %+v", done)
	}
	if got := b.tree(); !strings.Contains(got, "TWO") || !strings.Contains(got, "new") || strings.Contains(got, "gone") || strings.Contains(got, "stolen") {
		t.Errorf("the project:\n%s", got)
	}
	if err := b.do(session.WorkLand, nil, func(w *session.Work) { w.Land.Yes = true }); code(err) != api.ExitNothing {
		t.Errorf("landing again: %v", err)
	}
	if err := b.do(session.WorkUndo, &plan, func(w *session.Work) { w.Landing = done.ID }); code(err) != api.ExitGate || len(plan.Changes) != 3 {
		t.Errorf("undo without a yes: %+v, %v", plan, err)
	}
	must(t, b.do(session.WorkUndo, &plan, func(w *session.Work) { w.Landing, w.Undo.Yes = done.ID, true }))
	if plan.Undoes != done.ID || b.tree() != before {
		t.Errorf("undone: %+v\n%s\nwant\n%s", plan, b.tree(), before)
	}
	var all []api.Landing
	must(t, b.do(session.WorkLands, &all, nil))
	if len(all) != 2 || all[0].ID != plan.ID || all[1].State != "undone" {
		t.Errorf("lands: %+v", all)
	}
	if err := b.do(session.WorkUndo, nil, func(w *session.Work) { w.Landing = "abcdefghijkl" }); code(err) != api.ExitNotFound {
		t.Errorf("undo of no landing: %v", err)
	}
	must(t, b.do(session.WorkRecover, &all, func(w *session.Work) { w.Projects = []string{b.project} }))
}

// tree is the project as text.
func (b *bench) tree() string {
	return b.sh("cd " + b.project + "; find . -type f -name '[a-z]*' | sort | xargs grep -r ''; cat .env")
}

func TestConflictComesWithItsFindings(t *testing.T) {
	testbox.Need(t, "userns", "sh")
	b := newBench(t)
	b.edit()
	b.sh("echo host >>" + b.project + "/a")
	var l api.Landing
	err := b.do(session.WorkLand, &l, func(w *session.Work) { w.Land.Yes = true })
	if code(err) != api.ExitConflict || len(l.Findings) != 1 || l.Findings[0].Kind != "conflict" || l.Findings[0].Path != "a" {
		t.Errorf("%+v, %v", l, err)
	}
	if got := b.tree(); strings.Contains(got, "new") || !strings.Contains(got, "host") {
		t.Errorf("something landed:\n%s", got)
	}
}

func TestLinkOutOfTheProjectWantsAYes(t *testing.T) {
	testbox.Need(t, "userns", "sh")
	b := newBench(t)
	b.sh("ln -s /etc/passwd " + b.upper + "/out")
	var l api.Landing
	err := b.do(session.WorkLand, &l, func(w *session.Work) { w.Land.DryRun = true })
	if code(err) != api.ExitGate || len(l.Findings) != 1 || l.Findings[0].Kind != "confirm" {
		t.Fatalf("%+v, %v", l, err)
	}
	expect, allow := l.Changeset, []string{l.Findings[0].ID}
	err = b.do(session.WorkLand, nil, func(w *session.Work) { w.Land.Expect = expect })
	if code(err) != api.ExitGate {
		t.Errorf("a reviewed changeset without a yes to the link: %v", err)
	}
	must(t, b.do(session.WorkLand, &l, func(w *session.Work) { w.Land.Expect, w.Land.Allow = expect, allow }))
	if target, err := os.Readlink(filepath.Join(b.project, "out")); err != nil || target != "/etc/passwd" {
		t.Errorf("%q, %v", target, err)
	}
}

func TestExplain(t *testing.T) {
	testbox.Need(t, "sh")
	b := newBench(t)
	b.w.Policy.Base = []string{"/usr"}
	home := b.w.Record.Home.Real
	for path, want := range map[string]string{
		b.project + "/a": "writable", b.project + "/.env": "hidden", home + "/.ssh/id_ed25519": "hidden",
		"/usr/bin/env": "read-only", "/srv/x": "absent", home + "/.bashrc": "writable",
	} {
		var e api.Explanation
		must(t, b.do(session.WorkExplain, &e, func(w *session.Work) { w.Path = path }))
		if e.Access != want || e.Rule == "" {
			t.Errorf("%s: %+v; want %s", path, e, want)
		}
		if path == b.project+"/.env" && (!strings.Contains(e.Rule, "--mask") || len(e.Notes) == 0) {
			t.Errorf("a masked path of a repository: %+v", e)
		}
	}
}

func TestLogOfADeadSession(t *testing.T) {
	b := newBench(t)
	// The log is the session's user's; here it is written before it changes hands.
	dir := filepath.Join(testbox.TempDir(t), "log")
	must(t, os.Mkdir(dir, 0o755))
	log, err := execlog.Open(dir, execlog.Options{})
	must(t, err)
	s, err := log.Create([]string{"make"}, false)
	must(t, err)
	s.Append(1, []byte("out"))
	s.Append(2, []byte("err"))
	s.End(3, 0, "")
	cut, err := log.Create([]string{"sleep"}, false)
	must(t, err)
	cut.Append(1, []byte("half"))
	log.Close()
	must(t, exec.Command("chmod", "-R", "a+rX", dir).Run())
	b.sh("cp -r " + dir + "/. " + b.w.Dir + "/log/")
	var list []api.Command
	must(t, b.do(session.WorkExecs, &list, nil))
	if len(list) != 2 || list[0].Code != 3 || list[0].Output != 6 || list[1].Code != 137 || list[1].Running {
		t.Errorf("%+v", list)
	}
	var out []byte
	must(t, b.do(session.WorkLog, &out, func(w *session.Work) { w.Exec, w.From = "1", 2 }))
	if string(out) != "terr" {
		t.Errorf("%q", out)
	}
	must(t, b.do(session.WorkLog, &out, func(w *session.Work) { w.Exec = "2" }))
	if string(out) != "half" {
		t.Errorf("%q", out)
	}
	if err := b.do(session.WorkLog, nil, func(w *session.Work) { w.Exec = "9" }); code(err) != api.ExitNotFound {
		t.Errorf("no such command: %v", err)
	}
}

func code(err error) int {
	var told *api.Error
	if errors.As(err, &told) {
		return told.Code
	}
	return -1
}
