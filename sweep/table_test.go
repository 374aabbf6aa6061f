package sweep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/session"
)

func TestParseTable(t *testing.T) {
	text := `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:5 /a\040b//deleted /mnt/st\040ate\011x\134y\012z rw - tmpfs  rw
24 22 0:6 / /m rw - overlay sbxd:abcdefghijkl:8:99 rw,lowerdir+=/l\054x,upperdir=/s/u,workdir=/s/w,userxattr
25 22 0:7 / /old rw - overlay none rw,lowerdir=/a:/b,upperdir=/c\040d
26 22 0:8 / /dead rw,nosuid - fuse.x x rw,user_id=0
`
	got, partial, err := parseTable(strings.NewReader(text))
	if err != nil || partial {
		t.Fatalf("parseTable: partial %v, %v", partial, err)
	}
	want := []Mount{
		{Point: "/", Root: "/", Major: 8, Minor: 1, FSType: "ext4"},
		{Point: "/mnt/st ate\tx\\y\nz", Root: "/a b//deleted", Minor: 5, FSType: "tmpfs"},
		{
			Point: "/m", Root: "/", Minor: 6, FSType: "overlay", Layers: []string{"/l,x", "/s/u", "/s/w"},
			Label: session.Label{ID: "abcdefghijkl", In: session.DirID{Dev: 8, Ino: 99}},
		},
		{Point: "/old", Root: "/", Minor: 7, FSType: "overlay", Layers: []string{"/a", "/b", "/c d"}},
		{Point: "/dead", Root: "/", Minor: 8, FSType: "fuse.x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseTable (-want +got):\n%s", diff)
	}
}

func TestABadLineSpoilsNoOther(t *testing.T) {
	long := "30 22 0:9 / /long rw - overlay x rw,lowerdir=" + strings.Repeat("/d:", 100_000)
	text := "22 1 8:1 / / rw - ext4 r rw\nnonsense\n" + long + "\n31 22 0:10 / /after rw - tmpfs t rw\n"
	got, partial, err := parseTable(strings.NewReader(text))
	if err != nil || !partial {
		t.Errorf("partial = %v, %v, want true", partial, err)
	}
	var points []string
	for _, m := range got {
		points = append(points, m.Point)
	}
	if want := []string{"/", "/long", "/after"}; !cmp.Equal(points, want) {
		t.Errorf("points = %q, want %q", points, want)
	}
	// Long options alone are nothing that was lost.
	if _, partial, err := parseTable(strings.NewReader(long + "\n")); err != nil || partial {
		t.Errorf("a line with long options: partial %v, %v", partial, err)
	}
	// A line without an end of line, and one whose paths cannot be kept.
	if got, _, err := parseTable(strings.NewReader("31 22 0:10 / /after rw - tmpfs t rw")); err != nil || len(got) != 1 {
		t.Errorf("no end of line: %v, %v", got, err)
	}
	if _, partial, _ := parseTable(strings.NewReader("1 2 0:1 / /" + strings.Repeat("x", 100<<10) + " rw - tmpfs t rw\n")); !partial {
		t.Error("a path of 100 KiB was cut without a word")
	}
}

func TestRelMatchesWholeComponents(t *testing.T) {
	for _, tc := range []struct {
		dir, path, want string
		ok              bool
	}{
		{"/st", "/st/a/b", "a/b", true},
		{"/st", "/st", "", false},
		{"/st", "/st/", "", false},
		{"/st", "/st-other", "", false},
		{"/st", "/stx/s1", "", false},
		{"/st", "/x/st/a", "", false},
		{"/st", "/st/a//deleted", "a", true},
		{"/st", "/st//deleted", "", false},
		{"/st", "/st/deleted", "deleted", true},
		{"/st", "/st/a (deleted)", "a (deleted)", true},
		{"/", "/a", "a", true},
		{"/", "/", "", true},
	} {
		got, ok := rel(tc.dir, tc.path)
		if ok != tc.ok || ok && got != tc.want {
			t.Errorf("rel(%q, %q) = %q, %v, want %q, %v", tc.dir, tc.path, got, ok, tc.want, tc.ok)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add("22 1 8:1 / / rw - ext4 r rw\n")
	f.Add("24 22 0:6 / /m rw - overlay sbxd rw,upperdir=/s/\\05\n \n- - - - - - - - - -\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, err := parseTable(strings.NewReader(text)); err != nil {
			t.Errorf("parseTable: %v", err)
		}
	})
}

// table writes n lines below dir.
func table(n int, dir string) string {
	var b strings.Builder
	b.WriteString("22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n")
	for i := range n {
		fmt.Fprintf(&b, "%d 22 0:%d / %s/m%d rw,nosuid,nodev,relatime shared:%d - tmpfs tmpfs rw,size=4k,inode64\n", i+30, i+30, dir, i, i)
	}
	return b.String()
}
