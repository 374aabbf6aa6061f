package land

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rows are the cases of three-way comparison. Each starts from the same project.
var rows = []struct {
	name          string
	host, session func(b *box)
	conflicts     string            // "kind path" of each, joined by commas
	want          map[string]string // files after the landing; "<none>" for none
}{
	{
		"only the session", nil,
		func(b *box) { b.write("f", "S") }, "",
		map[string]string{"f": "S"},
	},
	{
		"only the host", func(b *box) { b.host("f", "H") },
		func(b *box) { b.write("g", "S") }, "",
		map[string]string{"f": "H", "g": "S"},
	},
	{
		"the same bytes on both sides", func(b *box) { b.host("f", "same") },
		func(b *box) { b.write("f", "same").write("g", "S") }, "",
		map[string]string{"f": "same", "g": "S"},
	},
	{
		"the same new file on both sides", func(b *box) { b.host("n", "same") },
		func(b *box) { b.write("n", "same").write("g", "S") }, "",
		map[string]string{"n": "same"},
	},
	{
		"both removed it", func(b *box) { b.hostRemove("f") },
		func(b *box) { b.remove("f").write("g", "S") }, "",
		map[string]string{"f": "<none>", "g": "S"},
	},
	{
		"both edited it", func(b *box) { b.host("f", "H") },
		func(b *box) { b.write("f", "S").write("g", "S") }, "content f", nil,
	},
	{
		"the host wrote the old bytes again", func(b *box) { b.host("f", "1") },
		func(b *box) { b.write("f", "S") }, "content f", nil,
	},
	{
		"both made it, differently", func(b *box) { b.host("n", "H") },
		func(b *box) { b.write("n", "S") }, "add/add n", nil,
	},
	{
		"removed here, edited there", func(b *box) { b.host("f", "H") },
		func(b *box) { b.remove("f") }, "delete/edit f", nil,
	},
	{
		"edited here, removed there", func(b *box) { b.hostRemove("f") },
		func(b *box) { b.write("f", "S") }, "edit/delete f", nil,
	},
	{
		"the host made it a directory", func(b *box) { b.hostRemove("f").host("f/x", "H") },
		func(b *box) { b.write("f", "S") }, "type f", nil,
	},
	{
		"the session made it a link", func(b *box) { b.host("f", "H") },
		func(b *box) { b.symlink("g", "f") }, "type f", nil,
	},
	{
		"a file becomes a directory", nil,
		func(b *box) { b.mkdir("f").write("f/g/h", "3") }, "",
		map[string]string{"f/g/h": "3"},
	},
	{
		"a directory becomes a file", nil,
		func(b *box) { b.write("d", "file") }, "",
		map[string]string{"d": "file"},
	},
	{
		"a directory becomes a file, the host added to it", func(b *box) { b.host("d/new", "H") },
		func(b *box) { b.write("d", "file") }, "dir-not-empty d/new", nil,
	},
	{
		"a directory goes, the host added a tree to it", func(b *box) { b.host("d/n/a", "H").host("d/n/b", "H") },
		func(b *box) { b.remove("d") }, "dir-not-empty d/n", nil,
	},
	{
		"a directory goes, the host edited in it", func(b *box) { b.host("d/s/old", "H") },
		func(b *box) { b.remove("d") }, "delete/edit d/s/old", nil,
	},
	{
		"a directory goes, the host removed part of it", func(b *box) { b.hostRemove("d/s") },
		func(b *box) { b.remove("d") }, "",
		map[string]string{"d/a": "<none>", "d/s/old": "<none>"},
	},
	{
		"a directory made anew", nil,
		func(b *box) { b.remove("d").mkdir("d").mkdir("d/s").write("d/s/new", "n") }, "",
		map[string]string{"d/a": "<none>", "d/s/old": "<none>", "d/s/new": "n"},
	},
	{
		"a directory made anew hides what the host added", func(b *box) { b.host("d/hostnew", "H") },
		func(b *box) { b.remove("d").mkdir("d").mkdir("d/s").write("d/s/new", "n") }, "opaque-hides-new d/hostnew", nil,
	},
	{
		"a new directory, the host made one of that name", func(b *box) { b.host("fresh/hostfile", "H") },
		func(b *box) { b.mkdir("fresh").chmod("fresh", 0o750) }, "add/add fresh", nil,
	},
	{
		"the same new directory with different files", func(b *box) { b.host("fresh/h", "H") },
		func(b *box) { b.mkdir("fresh").write("fresh/s", "S") }, "",
		map[string]string{"fresh/h": "H", "fresh/s": "S"},
	},
	{
		"the host moved the directory away", func(b *box) { b.must(os.Rename(filepath.Join(b.project, "d"), filepath.Join(b.project, "e"))) },
		func(b *box) { b.write("d/new", "S") }, "parent d/new", nil,
	},
	{
		"the host made the directory a link", func(b *box) {
			b.hostRemove("d")
			b.must(os.Symlink("/tmp", filepath.Join(b.project, "d")))
		},
		func(b *box) { b.write("d/authorized_keys", "S") }, "parent d/authorized_keys", nil,
	},
	{
		"the host made the directory a file", func(b *box) { b.hostRemove("d").host("d", "H") },
		func(b *box) { b.write("d/s/new", "S") }, "parent d/s/new", nil,
	},
	{
		"mode here, bytes there", func(b *box) { b.host("f", "H") },
		func(b *box) { b.chmod("f", 0o755) }, "content f", nil,
	},
	{
		"the host moved its times only, bytes known", func(b *box) {
			b.write("f", "S").scan()
			now := Clock().Time()
			b.must(os.Chtimes(filepath.Join(b.project, "f"), now, now))
		},
		func(b *box) { b.write("f", "S") }, "",
		map[string]string{"f": "S"},
	},
	{
		"both changed the mode", func(b *box) { b.must(os.Chmod(filepath.Join(b.project, "f"), 0o600)) },
		func(b *box) { b.chmod("f", 0o755) }, "mode f", nil,
	},
	{
		"both changed a directory's mode", func(b *box) { b.must(os.Chmod(filepath.Join(b.project, "d"), 0o700)) },
		func(b *box) { b.chmod("d", 0o750) }, "mode d", nil,
	},
	{
		"odd names", nil,
		func(b *box) {
			b.write("-rf", "1").write("a\nb", "2").write("\xff", "3").write(" x ", "4").write("a\"\\", "5")
		}, "",
		map[string]string{"-rf": "1", "a\nb": "2", "\xff": "3", " x ": "4", "a\"\\": "5"},
	},
	{
		"names that look like whiteouts of another format", nil,
		func(b *box) { b.write(".wh.f", "1").mkdir(".wh..wh..opq") }, "",
		map[string]string{".wh.f": "1", "f": "1"},
	},
	{
		"a copy-up without a change", nil,
		func(b *box) { b.touchUp("f"); b.write("g", "S") }, "",
		map[string]string{"f": "1", "g": "S"},
	},
	{
		"a copy-up without a change, the host edited", func(b *box) { b.host("g", "HH") },
		func(b *box) { b.touchUp("f"); b.write("n", "S") }, "",
		map[string]string{"g": "HH", "n": "S"},
	},
}

func TestRows(t *testing.T) {
	for _, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t)
			b.host("f", "1").host("g", "2").host("d/a", "3").host("d/s/old", "4").start()
			settle()
			// The session first: what shows through is what the project was.
			tc.session(b)
			if tc.host != nil {
				tc.host(b)
			}
			before := treeOf(t, b.project)
			cs := b.scan()
			var got []string
			for _, c := range cs.Plan.Conflicts {
				got = append(got, c.Kind+" "+c.Path)
			}
			if s := strings.Join(got, ","); s != tc.conflicts {
				t.Fatalf("conflicts %q, want %q", s, tc.conflicts)
			}
			_, err := Apply(t.Context(), b.options(), cs.ID)
			if tc.conflicts != "" {
				var c *ConflictError
				if !errors.As(err, &c) || len(c.Paths()) != len(got) {
					t.Errorf("land: %v, want a conflict", err)
				}
				if diff := cmp.Diff(before, treeOf(t, b.project)); diff != "" {
					t.Errorf("a conflict changed the project:\n%s", diff)
				}
			} else if err != nil {
				t.Fatalf("land: %v", err)
			}
			for path, want := range tc.want {
				if got := b.read(path); got != want {
					t.Errorf("%q is %q, want %q", path, got, want)
				}
			}
			if left := b.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
