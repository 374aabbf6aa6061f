package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/testbox"
)

// tryStart starts a session and returns its id, or "" and what was said when it failed
// with one clear line and a documented exit code.
func (b *box) tryStart(t *testing.T, what string) (id, said string) {
	t.Helper()
	cmd := b.cmd("start", "--project", b.project)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	code := cmd.ProcessState.ExitCode()
	if code == api.ExitOK {
		return strings.TrimSpace(string(out)), ""
	}
	documented := slices.ContainsFunc(codes, func(row struct {
		code  int
		means string
	},
	) bool {
		return row.code == code
	})
	said = strings.TrimSpace(stderr.String())
	line, next, _ := strings.Cut(said, "\n")
	if !documented || len(out) > 0 || !strings.HasPrefix(line, "sbxd: ") ||
		next != "" && (!strings.HasPrefix(next, "  next: ") || strings.Contains(next, "\n")) {
		t.Errorf("%s: exit code %d, printed %q, said:\n%s", what, code, out, said)
	}
	return "", said
}

// TestAFullDisk starts sessions with ever more room on the disk of the state root, in
// bytes and in files, until one starts. Each that does not says so and leaves nothing.
func TestAFullDisk(t *testing.T) {
	b := servedOnSmallDisk(t)
	before := b.trace(t)
	filler := filepath.Join(b.disk, "filler")
	for _, k := range []struct {
		what string
		step int
		fill func(left int)
	}{
		{"KiB", 4, func(left int) { fillBytes(t, filler, left<<10) }},
		{"files", 2, func(left int) { fillFiles(t, filler, left) }},
	} {
		failed := 0
		for left := 0; ; left += k.step {
			k.fill(left)
			what := fmt.Sprintf("with %d %s left", left, k.what)
			id, said := b.tryStart(t, what)
			if id != "" {
				b.run(t, 0, "exec", id, "--", "true")
			}
			must(t, os.RemoveAll(filler))
			if id != "" {
				b.run(t, 0, "rm", "--discard", id)
				b.noTrace(t, before)
				break
			}
			if failed++; !strings.Contains(said, "no space left") {
				t.Errorf("%s: %s", what, said)
			}
			b.noTrace(t, before)
		}
		if failed < 3 {
			t.Errorf("only %d starts met a full disk in %s", failed, k.what)
		}
	}
}

// servedOnSmallDisk is a box whose state root is a disk of its own, of few files.
func servedOnSmallDisk(t *testing.T) *box {
	t.Helper()
	testbox.Need(t, needSession...)
	testbox.Need(t, "root")
	uid, gid := testbox.AsUser(t)
	b, err := newBox(testbox.TempDir(t), uid, gid)
	must(t, err)
	b.disk = filepath.Join(b.dir, "state")
	must(t, os.Mkdir(b.disk, 0o711))
	const blocks, files = 4 << 20, 600
	must(t, unix.Mount("tmpfs", b.disk, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d,mode=0711", blocks, files)))
	t.Cleanup(func() { must(t, unix.Unmount(b.disk, unix.MNT_DETACH)) })
	must(t, b.serve())
	t.Cleanup(func() {
		if err := b.clean(); err != nil {
			t.Error(err)
		}
	})
	if id, said := b.tryStart(t, "with room"); id == "" {
		testbox.Skip(t, "an overlay on a tmpfs", said)
	} else {
		b.run(t, 0, "rm", id)
	}
	return b
}

// TestAFullDiskPassesOutputOn: what a command prints reaches whoever is there, though the
// log keeps none of it.
func TestAFullDiskPassesOutputOn(t *testing.T) {
	b := servedOnSmallDisk(t)
	id := b.run(t, 0, "start", "--project", b.project)
	filler := filepath.Join(b.disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	const total = 20 << 20
	cmd := b.cmd("exec", id, "--", "sh", "-c", fmt.Sprintf("yes 123456789abcdef | head -c %d; echo no >&2; exit 3", total))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output()
	if want := strings.Repeat("123456789abcdef\n", total/16); string(out) != want || stderr.String() != "no\n" || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%d bytes of %d, %v, said %q", len(out), total, cmd.ProcessState, stderr.String())
	}
	if said := b.run(t, 0, "status", id); !strings.Contains(said, "the output log takes no more") {
		t.Errorf("status does not tell that the log is full:\n%s", said)
	}
	must(t, os.Remove(filler))
	b.run(t, 0, "rm", id)
}

// fillBytes fills the disk but for a rest.
func fillBytes(t *testing.T, dir string, left int) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	must(t, os.WriteFile(dir+"/f", make([]byte, max(0, int(st.Bavail)*int(st.Bsize)-left)), 0o600))
}

// fillFiles leaves room for so many files.
func fillFiles(t *testing.T, dir string, left int) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	for i := range int(st.Ffree) - left {
		must(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o600))
	}
}
