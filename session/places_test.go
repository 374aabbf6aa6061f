package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/api"
)

func TestCheckPath(t *testing.T) {
	for _, good := range []string{"/", "/a:b", "/a,b", `/a\b`, "/a b", "/a\nb", "/a..b/..c", "/" + strings.Repeat("x/", 1900)} {
		if err := CheckPath("project", good); err != nil {
			t.Errorf("%.40q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "a", "./a", "~/a", "/a\x00b", "/a/../b", "/a/..", "/\xff", "/" + strings.Repeat("x", MaxPath)} {
		err := CheckPath("project", bad)
		var told *api.Error
		if !errors.As(err, &told) || told.Code != api.ExitUsage || told.Hint == "" || len(told.Message) > 600 {
			t.Errorf("%.40q: %v; want one short line and a hint", bad, err)
		}
	}
}

func TestResolve(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(top, "home")
	odd := filepath.Join(home, "a:b,c\\d \n#")
	state := filepath.Join(top, "state")
	link := filepath.Join(top, "link")
	if err := errors.Join(
		os.MkdirAll(odd, 0o700), os.Mkdir(state, 0o700), os.Symlink(home, link),
		os.WriteFile(filepath.Join(home, "file"), nil, 0o600), os.Symlink("loop", filepath.Join(home, "loop")),
		os.Mkdir(filepath.Join(home, "locked"), 0o300),
	); err != nil {
		t.Fatal(err)
	}
	ask := func(project, home, root string) (Places, error) {
		var w Work
		w.Root, w.Record.UID = root, os.Geteuid()
		w.Record.Project.Spelled, w.Record.Home.Spelled = project, home
		return Resolve(w)
	}
	got, err := ask(link+"/"+filepath.Base(odd)+"/", link, state)
	if err != nil {
		t.Fatal(err)
	}
	if got.Project.Real != odd || got.Home.Real != home || got.Home.Spelled != link || got.Project.Ino == 0 || got.Project.Dev == 0 {
		t.Errorf("places: %+v", got)
	}
	again, err := ask(odd, home, state)
	if err != nil || !again.Project.Same(got.Project) || again.Project.Same(again.Home) {
		t.Errorf("the same directory by another way: %+v, %v", again, err)
	}
	type refusal struct {
		project, home, root string
		code                int
		says                string
	}
	refusals := map[string]refusal{
		"missing":               {top + "/none", home, state, api.ExitNotFound, "does not exist"},
		"a file":                {home + "/file", home, state, api.ExitRefused, "not a directory"},
		"a loop":                {home + "/loop", home, state, api.ExitFailed, "too many links"},
		"slash":                 {"/", home, state, api.ExitRefused, "root directory"},
		"above HOME":            {top, home, "", api.ExitRefused, "above HOME"},
		"above the state root":  {top, home, state, api.ExitRefused, "state root"},
		"in the state root":     {state, home, state, api.ExitRefused, "state root"},
		"state root in HOME":    {odd, home, home + "/.state", api.ExitRefused, "state root"},
		"state root in project": {odd, home, odd + "/.state", api.ExitRefused, "state root"},
		"proc":                  {"/proc/self", home, state, api.ExitRefused, "/proc"},
		"HOME of another":       {odd, "/proc/1", state, api.ExitRefused, "HOME"},
		"HOME is slash":         {odd, "/", state, api.ExitRefused, "HOME"},
	}
	if os.Geteuid() != 0 { // to root nothing is locked
		refusals["locked"] = refusal{home + "/locked", home, state, api.ExitDenied, "cannot be read"}
	}
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			_, err := ask(c.project, c.home, c.root)
			var told *api.Error
			if !errors.As(err, &told) || told.Code != c.code || !strings.Contains(told.Message, c.says) {
				t.Errorf("%v; want code %d and %q", err, c.code, c.says)
			}
		})
	}
}

func TestPrepare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions", "x")
	for range 2 { // it may be asked again
		if _, err := Prepare(Work{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range DataDirs {
		if st, err := os.Stat(filepath.Join(dir, d)); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, st, err)
		}
	}
}
