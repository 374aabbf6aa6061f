package land

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// child is what a child process of the tests does: one operation, to be killed in
// the middle of.
type child struct {
	Op      string // apply, undo, recover
	Options Options
	ID      string
}

const childEnv = "LAND_TEST_CHILD"

func TestMain(m *testing.M) {
	if env := os.Getenv(childEnv); env != "" {
		if err := runChild(env); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testbox.Main(m)
}

func runChild(env string) error {
	var c child
	if err := json.Unmarshal([]byte(env), &c); err != nil {
		return err
	}
	ctx := context.Background()
	var err error
	switch c.Op {
	case "apply":
		_, err = Apply(ctx, c.Options, "")
	case "undo":
		_, err = Undo(ctx, UndoOptions{Options: c.Options, ID: c.ID})
	case "recover":
		_, err = Recover(ctx, c.Options.Lands, c.Options.Project, 0)
	default:
		err = fmt.Errorf("no operation %q", c.Op)
	}
	return err
}

// command returns a child process that does op on b.
func (b *box) command(op, id string, env ...string) *exec.Cmd {
	b.t.Helper()
	j, err := json.Marshal(child{Op: op, Options: b.options(), ID: id})
	b.must(err)
	cmd := exec.CommandContext(b.t.Context(), "/proc/self/exe")
	cmd.Env = append(append(os.Environ(), childEnv+"="+string(j)), env...)
	return cmd
}

// diskDir returns a directory on a disk.
func diskDir(t testing.TB) string {
	t.Helper()
	return tempIn(t, testbox.Root())
}

// quickDir returns a directory where writing costs no disk, if there is one with
// extended attributes; a crash of a process loses nothing there either.
func quickDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if unix.Access(memory, unix.W_OK) != nil {
		return diskDir(t)
	}
	dir := tempIn(t, memory)
	probe := newBoxIn(t, filepath.Join(dir, "probe")).host("d/f", "x")
	probe.mkdir("d")
	if !opaque(filepath.Join(probe.upper, "d")) {
		return diskDir(t)
	}
	return dir
}

func tempIn(t testing.TB, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "land") //nolint:usetesting // below a directory of the test's choice, with modes that RemoveAll cannot take
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeTree(parent, filepath.Base(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}
