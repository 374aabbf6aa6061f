package session

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// layouts runs f on an empty store of each layout.
func layouts(t *testing.T, f func(t *testing.T, s *Store)) {
	for name, system := range map[string]bool{"user": false, "system": true} {
		t.Run(name, func(t *testing.T) {
			f(t, open(t, filepath.Join(t.TempDir(), "state"), system))
		})
	}
}

func open(t *testing.T, path string, system bool) *Store {
	t.Helper()
	root, err := openRoot(path, system)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func sample() Record {
	return Record{
		Format: Format, ID: NewID(), Name: "thread-1", Labels: map[string]string{"chat": "a=b"}, State: Creating,
		UID: 12345, GID: 12345, Groups: []int{12345, 7}, Agent: "codex", Network: "off", Backend: "auto",
		Project:  Place{Spelled: "/home/u/link", Real: "/home/u/a,b:c\\ d", Dev: 1, Ino: 1 << 60, BTime: 5},
		Home:     Place{Spelled: "/home/u", Real: "/home/u", Dev: 1, Ino: 2},
		Given:    Given{Masks: []string{"~/.x", "a\nb"}, ReadOnly: []string{"/opt"}},
		EnvNames: []string{"TOKEN"}, Created: time.Unix(1e9, 5).UTC(),
	}
}

func TestRecordComesBack(t *testing.T) {
	layouts(t, func(t *testing.T, s *Store) {
		want := sample()
		env := []string{"TOKEN=s3cret\nline", "E="}
		if err := s.Create(want, env); err != nil {
			t.Fatal(err)
		}
		if err := want.Move(Alive); err != nil {
			t.Fatal(err)
		}
		if err := s.Save(want); err != nil {
			t.Fatal(err)
		}
		got, err := s.Load(want.ID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Load: %v\n%s", err, diff)
		}
		if got, err := s.Env(want.ID); err != nil || !cmp.Equal(got, env) {
			t.Errorf("Env: %q, %v", got, err)
		}
		b, err := os.ReadFile(filepath.Join(s.dir(want.ID), recordFile))
		if err != nil || strings.Contains(string(b), "s3cret") {
			t.Errorf("the record holds a value, or: %v", err)
		}
		if err := s.Create(want, nil); err == nil {
			t.Error("the same id was created twice")
		}
		if _, err := s.Load(NewID()); !errors.Is(err, ErrNotFound) {
			t.Errorf("Load of a session that is not there: %v", err)
		}
		if _, err := s.Load("../../etc"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Load of a path: %v", err)
		}
	})
}

func TestModes(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	layouts(t, func(t *testing.T, s *Store) {
		r := sample()
		if err := s.Create(r, []string{"A=b"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(r.ID, Event{What: "start", Result: "ok"}); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(s.Path(), func(p string, d fs.DirEntry, err error) error {
			st, serr := os.Lstat(p)
			if err != nil || serr != nil {
				return errors.Join(err, serr)
			}
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if p == s.Path() && s.System() {
				want = 0o711
			}
			if st.Mode().Perm() != want {
				t.Errorf("%s has mode %o, want %o", p, st.Mode().Perm(), want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestTornRecordsAreKeptAndOthersLoad(t *testing.T) {
	noise := make([]byte, 300)
	_, _ = rand.Read(noise)
	torn := map[string]string{
		"empty": "", "cut": "{", "null": "null", "list": "[]", "wrong type": `{"id":1}`, "noise": string(noise),
		"no format": `{"id":"abcdefghijkl"}`, "newer": `{"format":99,"new":true}`, "long": strings.Repeat(" ", maxRecord+1),
		"other id":      `{"format":1,"id":"abcdefghijkl","state":"running","project":{"real":"/p"},"home":{"real":"/h"}}`,
		"unknown state": `{"format":1,"id":"ID","state":"flying","project":{"real":"/p"},"home":{"real":"/h"}}`,
		"no project":    `{"format":1,"id":"ID","state":"running"}`,
		"deep":          strings.Repeat("[", 200000),
	}
	layouts(t, func(t *testing.T, s *Store) {
		good := sample()
		if err := s.Create(good, nil); err != nil {
			t.Fatal(err)
		}
		want := map[ID]string{}
		for name, text := range torn {
			r := sample()
			if err := s.Create(r, nil); err != nil {
				t.Fatal(err)
			}
			text = strings.Replace(text, `"ID"`, `"`+string(r.ID)+`"`, 1)
			if err := os.WriteFile(filepath.Join(s.dir(r.ID), recordFile), []byte(text), 0o600); err != nil {
				t.Fatal(name, err)
			}
			want[r.ID] = text
		}
		all, err := s.All()
		if err != nil || len(all) != len(torn)+1 {
			t.Fatalf("All: %d records, %v; want %d", len(all), err, len(torn)+1)
		}
		for _, r := range all {
			if r.ID == good.ID {
				if r.State != Creating {
					t.Errorf("the good one is %s", r.State)
				}
				continue
			}
			if r.State != Broken || r.Reason == "" || len(r.Reason) > 500 {
				t.Errorf("%.20q: state %s, reason %.600q", want[r.ID], r.State, r.Reason)
			}
			if err := s.Save(r); !errors.Is(err, ErrRefused) {
				t.Errorf("saving over a torn record: %v", err)
			}
			b, err := os.ReadFile(filepath.Join(s.dir(r.ID), recordFile))
			if err != nil || string(b) != want[r.ID] {
				t.Errorf("the torn record was changed (%v)", err)
			}
		}
	})
}

// A record that is no regular file is never followed and never waited for.
func TestRecordsThatAreNoFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(string) error{
		"link":    func(p string) error { return os.Symlink(outside, p) },
		"fifo":    func(p string) error { return unix.Mkfifo(p, 0o600) },
		"dir":     func(p string) error { return os.Mkdir(p, 0o700) },
		"nothing": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "state"), false)
			r := sample()
			if err := s.Create(r, nil); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(s.dir(r.ID), recordFile)
			if err := errors.Join(os.Remove(file), plant(file)); err != nil {
				t.Fatal(err)
			}
			got, err := s.Load(r.ID)
			if err != nil || got.State != Broken {
				t.Errorf("Load: %s, %v; want broken", got.State, err)
			}
		})
	}
}

func TestHalfMadeAndHalfRemoved(t *testing.T) {
	layouts(t, func(t *testing.T, s *Store) {
		r, gone := sample(), sample()
		if err := errors.Join(s.Create(r, nil), s.Create(gone, nil)); err != nil {
			t.Fatal(err)
		}
		half := filepath.Join(s.records(), making+string(NewID()))
		if err := os.MkdirAll(filepath.Join(half, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Retire(gone.ID); err != nil {
			t.Fatal(err)
		}
		path, system := s.Path(), s.System()
		s.Close()
		s = open(t, path, system)
		if _, err := os.Lstat(half); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the half-made one is still there: %v", err)
		}
		all, err := s.All()
		if err != nil || len(all) != 1 || all[0].ID != r.ID {
			t.Errorf("All: %v, %v", all, err)
		}
		ids, err := s.Retired()
		if err != nil || !cmp.Equal(ids, []ID{gone.ID}) {
			t.Fatalf("Retired: %v, %v", ids, err)
		}
		if err := s.Purge(gone.ID); err != nil {
			t.Fatal(err)
		}
		if ids, err := s.Retired(); err != nil || len(ids) != 0 {
			t.Errorf("after Purge: %v, %v", ids, err)
		}
	})
}

func TestEventsAreLines(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "state"), false)
	r := sample()
	if err := s.Create(r, nil); err != nil {
		t.Fatal(err)
	}
	for _, e := range []Event{{What: "start", Result: "ok"}, {What: "exec", Detail: "a\nb", Result: "ok"}} {
		if err := s.Append(r.ID, e); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(s.dir(r.ID), eventsFile))
	if err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("%q, %v; want two lines", b, err)
	}
}
