package overlaytest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// directories tests what a union does to whole directories.
func (s *suite) directories(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *view){
		"a lower directory is renamed by copying":   moveLower,
		"a new directory is renamed at once":        moveNew,
		"rename over directories":                   renameOver,
		"listing and stat agree":                    listing,
		"an opaque directory hides all":             opaque,
		"a deleted directory is reported by path":   deletedByPath,
		"nothing changed is nothing reported":       untouched,
		"mode 000 is reported, or says who can":     unreadable,
		"the lower may be changed through no entry": lowerSafe,
	} {
		t.Run(name, func(t *testing.T) {
			v := s.newView(t, func(lower string) error {
				return script(lower, `mkdir -p d/s e; echo 1 >d/one; echo 2 >d/s/two; echo f >f; ln -s f l; mkfifo p`)
			})
			f(t, v)
			v.consistent(nil)
		})
	}
	t.Run("entries removed while the list is read", func(t *testing.T) {
		v := s.newView(t, func(lower string) error {
			return script(lower, `mkdir many; cd many; seq -f 'e%03g' 300 | xargs touch`)
		})
		removeWhileReading(t, v)
		v.consistent(nil)
	})
}

func moveLower(_ *testing.T, v *view) {
	v.agent(func() error {
		err := os.Rename(v.P+"/d", v.P+"/moved")
		if err != nil && !errors.Is(err, unix.EXDEV) {
			return fmt.Errorf("rename(2): %w, want EXDEV or success", err)
		}
		if err == nil {
			return content(v.P+"/moved/s/two", "2\n")
		}
		return errors.Join(script(v.P, `mv d moved`), content(v.P+"/moved/s/two", "2\n"))
	})
	set := v.changes(overlay.Options{Hints: true})
	hints := map[string]string{}
	for _, c := range set.Changes {
		if c.From != "" || c.Hint != "" {
			hints[c.Path] = c.From + c.Hint
		}
	}
	if hints["moved/one"] != "d/one" || hints["moved/s/two"] != "d/s/two" {
		v.t.Errorf("renames seen: %v, want both files of d", hints)
	}
}

func moveNew(_ *testing.T, v *view) {
	v.agent(func() error {
		err := errors.Join(os.MkdirAll(v.P+"/n/m", 0o755), os.WriteFile(v.P+"/n/m/x", []byte("x"), 0o600),
			os.Rename(v.P+"/n", v.P+"/d/n"), os.Rename(v.P+"/d/n/m", v.P+"/m"))
		return errors.Join(err, content(v.P+"/m/x", "x"))
	})
}

func renameOver(_ *testing.T, v *view) {
	v.agent(func() error {
		if err := os.Mkdir(v.P+"/n", 0o755); err != nil {
			return err
		}
		return errors.Join(
			fails("rename over a full directory", unix.Rename(v.P+"/n", v.P+"/d"), unix.ENOTEMPTY),
			fails("rename a file over a directory", unix.Rename(v.P+"/f", v.P+"/e"), unix.EISDIR),
			fails("rmdir of a full directory", os.Remove(v.P+"/d"), unix.ENOTEMPTY),
			os.RemoveAll(v.P+"/d"),
			os.Mkdir(v.P+"/d", 0o755),
			unix.Rename(v.P+"/n", v.P+"/d"),
		)
	})
	if left, err := os.ReadDir(v.P + "/d"); err != nil || len(left) != 0 {
		v.t.Errorf("in the new directory: %v, %v, want nothing", left, err)
	}
}

// listing compares getdents(2) with stat(2), also for names that are copied up.
func listing(_ *testing.T, v *view) {
	v.agent(func() error {
		err := errors.Join(os.Chmod(v.P+"/f", 0o600), os.WriteFile(v.P+"/new", nil, 0o600), os.Remove(v.P+"/l"))
		f, oerr := os.Open(v.P)
		if oerr != nil {
			return oerr
		}
		defer f.Close()
		buf := make([]byte, 1<<15)
		n, gerr := unix.Getdents(int(f.Fd()), buf)
		if gerr != nil {
			return gerr
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		slices.Sort(names)
		err = errors.Join(err, want("names", fmt.Sprint(names), "[d e f new p]"))
		for _, d := range direntInodes(buf[:n]) {
			if d.name == "." || d.name == ".." {
				continue
			}
			var st unix.Stat_t
			err = errors.Join(err, unix.Lstat(v.P+"/"+d.name, &st), want("inode in the list of "+d.name, d.ino, st.Ino))
		}
		return err
	})
}

func removeWhileReading(_ *testing.T, v *view) {
	v.agent(func() error {
		f, err := os.Open(v.P + "/many")
		if err != nil {
			return err
		}
		defer f.Close()
		removed := 0
		for {
			names, err := f.Readdirnames(7)
			if len(names) == 0 {
				break
			}
			if err != nil {
				return err
			}
			for _, n := range names {
				if err := os.Remove(v.P + "/many/" + n); err != nil {
					return err
				}
				removed++
			}
		}
		return errors.Join(want("removed", removed, 300), os.Remove(v.P+"/many"))
	})
}

func opaque(_ *testing.T, v *view) {
	v.agent(func() error {
		return errors.Join(os.RemoveAll(v.P+"/d"), os.MkdirAll(v.P+"/d/s", 0o755), os.WriteFile(v.P+"/d/s/new", nil, 0o600))
	})
	set := v.changes(overlay.Options{})
	if got := list(set); got != "delete d/one file (was file) 644\nadd d/s/new file (was none) 600\ndelete d/s/two file (was file) 644\n" {
		v.t.Errorf("changes:\n%s", got)
	}
	if !slices.Contains(set.Opaque, "d") {
		v.t.Errorf("opaque: %q, want d", set.Opaque)
	}
	// The host adds to it later: still hidden, still not a deletion of ours.
	v.frozen = false
	v.check(os.WriteFile(v.lower+"/d/host", nil, 0o600))
	if _, err := os.Lstat(v.P + "/d/host"); err == nil {
		v.t.Error("what the host added shows through an opaque directory")
	}
	v.check(os.Remove(v.lower + "/d/host"))
}

func deletedByPath(_ *testing.T, v *view) {
	v.agent(func() error { return os.RemoveAll(v.P + "/d") })
	got := list(v.changes(overlay.Options{}))
	if got != "delete d dir (was dir) 755\ndelete d/one file (was file) 644\ndelete d/s dir (was dir) 755\ndelete d/s/two file (was file) 644\n" {
		v.t.Errorf("changes:\n%s", got)
	}
}

// untouched opens for writing, sets times, and writes the same bytes again.
func untouched(_ *testing.T, v *view) {
	v.agent(func() error {
		f, err := os.OpenFile(v.P+"/f", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), script(v.P, `touch d/one; echo 2 >d/s/two; chmod 600 e; chmod 755 e; touch new; rm new`))
	})
	if set := v.changes(overlay.Options{}); len(set.Changes) != 0 || set.Same < 5 {
		v.t.Errorf("%d entries the same, changes:\n%s", set.Same, list(set))
	}
}

func unreadable(_ *testing.T, v *view) {
	v.agent(func() error { return script(v.P, `mkdir x; echo s >x/y; chmod 0 x; chmod 0 f; echo z >z; chmod 0 z`) })
	set := v.changes(overlay.Options{})
	if got := list(set); got != "mode f file (was file) 0\nadd x dir (was none) 0\nadd x/y file (was none) 644\nadd z file (was none) 0\n" {
		v.t.Errorf("changes:\n%s", got)
	}
	err := asAgent(func() error {
		_, err := decode(v.upper, v.lower, overlay.Options{})
		return err
	})
	if !errors.Is(err, overlay.ErrNoAccess) {
		v.t.Errorf("decode without capabilities: %v, want ErrNoAccess", err)
	}
}

func lowerSafe(_ *testing.T, v *view) {
	v.agent(func() error {
		return script(v.P, `chmod 700 d; echo x >>d/one; ln d/s/two two; echo y >>two; mv f g; echo z >>g; ln -sf g l; rm p`)
	})
}
