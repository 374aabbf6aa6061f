package land

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a/b c":       "a/b c",
		"-rf":         "-rf",
		"":            `""`,
		" lead":       `" lead"`,
		"a\nb\t":      `"a\nb\t"`,
		"\xff":        `"\377"`,
		"a\x1b[31m":   `"a\033[31m"`,
		"a\u202eb":    `"a\342\200\256b"`,
		`q"\`:         `"q\"\\"`,
		"größe/日本":    "größe/日本",
		"\u009b31m":   `"\302\23331m"`,
		"ok\x7f":      `"ok\177"`,
		"soft\u00adh": `"soft\302\255h"`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
	if got, want := Printable("a\x1b[2J\tb\n\xff\u202e"), "a\\x1b[2J\tb\n\\xff\\u202e"; got != want {
		t.Errorf("Printable = %q, want %q", got, want)
	}
}

// A summary for a chat shows all that is lost before it cuts anything off.
func TestStatNeverHidesDeletions(t *testing.T) {
	b := newBox(t)
	for i := range 5 {
		b.host(fmt.Sprintf("old%d", i), "x")
	}
	b.host("t", "x").host("m", "x").start()
	for i := range 200 {
		b.write(fmt.Sprintf("new%03d", i), "n")
	}
	for i := range 5 {
		b.remove(fmt.Sprintf("old%d", i))
	}
	b.symlink("x", "t").chmod("m", 0o755).write("evil\x1b[2K\n", "x")
	b.must(unix.Mkfifo(filepath.Join(b.upper, "pipe"), 0o644))
	var out bytes.Buffer
	b.must(WriteStat(&out, b.scan(), 10))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"M  m  mode 644 -> 755", "D  old0", "D  old1", "D  old2", "D  old3", "D  old4", "T  t  -> x file -> symlink",
		"-  pipe  a FIFO does not land", `A  "evil\033[2K\n"`,
	}
	if diff := cmp.Diff(want, lines[:len(want)]); diff != "" {
		t.Error(diff)
	}
	if last := lines[len(lines)-1]; last != "and 191 more additions and edits" && last != "   and 191 more additions and edits" {
		t.Errorf("last line %q", last)
	}
}

// What is shown as a patch does to a copy of the project what a landing does.
func TestPatchAppliesWithGit(t *testing.T) {
	testbox.Need(t, "git")
	b := newBox(t)
	b.host("f", "1\n2\n3\n4\n5\n6\n7\n8\n").host("gone/x", "bye\n").host("sp ace", "s\n").host("m", "m\n").host("nl", "no newline")
	b.must(os.Symlink("f", filepath.Join(b.project, "l")))
	b.start()
	b.write("f", "1\n2\nthree\n4\n5\n6\n7\n8\n9\n").remove("gone").write("sp ace", "t\n").chmod("m", 0o755).write("new/n", "n\n").write("nl", "no newline\nnow\n")
	b.symlink("m", "l").write("crlf", "a\r\nb\r\n").write("q\"\t", "odd\n").write("empty", "")
	copied := filepath.Join(filepath.Dir(b.project), "copy")
	run := func(dir, in string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=/")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s\n%s", args, err, out, in)
		}
	}
	run("/", "", "cp", "-a", b.project, copied)
	var patch bytes.Buffer
	cs := b.scan()
	b.must(WritePatch(t.Context(), &patch, cs, b.options()))
	if first, _, _ := strings.Cut(patch.String(), "\n"); first != "diff --git a/gone/x b/gone/x" {
		t.Errorf("the first line is %q, want that of the deletion", first)
	}
	run(copied, patch.String(), "git", "apply", "-")
	b.mustLand()
	if diff := cmp.Diff(timeless(treeOf(t, b.project)), timeless(treeOf(t, copied))); diff != "" {
		t.Errorf("landed (-) and patched (+):\n%s\n%s", diff, patch.String())
	}
}

func TestPatchOfWhatIsNoText(t *testing.T) {
	b := newBox(t)
	b.host("bin", "a\x00b").host("large", strings.Repeat("x\n", textLimit)).host("d", "was a file\n").start()
	b.write("bin", "a\x00c").write("large", strings.Repeat("y\n", textLimit)).remove("d").mkdir("d").write("d/in", "i\n").write("latin", "\xe4\n")
	var patch bytes.Buffer
	b.must(WritePatch(t.Context(), &patch, b.scan(), b.options()))
	for _, want := range []string{
		"Binary files a/bin and b/bin differ", "# too large to show", "deleted file mode 100644\n--- a/d", "+++ b/d/in", "Binary files /dev/null and b/latin differ",
	} {
		if !strings.Contains(patch.String(), want) {
			t.Errorf("no %q in\n%.2000s", want, patch.String())
		}
	}
}

func TestWireFormKeepsBytes(t *testing.T) {
	b := newBox(t)
	b.host("f", "1").start().write("\xff\n", "x").symlink("t", "l").chmod("f", 0o755).remove("f")
	d := b.scan().API("s")
	j, err := json.Marshal(d)
	b.must(err)
	var back struct {
		ID      string
		Changes []struct {
			Path    string
			PathB64 []byte `json:"path_b64"`
			Op      string
		}
	}
	b.must(json.Unmarshal(j, &back))
	if len(back.ID) != 64 || len(back.Changes) != 3 {
		t.Fatalf("%s", j)
	}
	last := back.Changes[2]
	if string(last.PathB64) != "\xff\n" || last.Op != "add" || last.Path != "\ufffd\n" {
		t.Errorf("%+v", last)
	}
}
