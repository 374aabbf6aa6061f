package landlock

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// The tests below run the test binary again as a child: a restriction cannot be taken
// back. A child prints a JSON object of what it tried: "ok" or the error.
const (
	childEnv = "SBXD_LANDLOCK_TEST" // name of the child's function
	looseEnv = "SBXD_LANDLOCK_OFF"  // set: the child runs unrestricted, for comparison
)

type results map[string]string

func (r results) add(name string, err error) {
	if err == nil {
		r[name] = "ok"
		return
	}
	r[name] = err.Error()
}

var children = map[string]func(results) error{
	"mounts":  mountsInNestedNamespace,
	"attack":  attackMounts,
	"files":   useFiles,
	"outside": reachOutside,
	"again":   restrictAgain,
	"exec":    restrictThenExec,
}

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		testbox.Main(m)
	}
	runtime.LockOSThread()
	res := results{}
	if err := children[name](res); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(res); err != nil {
		os.Exit(1)
	}
}

func restrictChild() error {
	if os.Getenv(looseEnv) != "" {
		return nil
	}
	return Restrict(Options{})
}

// child runs one of the children and returns what it printed.
func child(t *testing.T, name string, restricted bool, args ...string) results {
	t.Helper()
	if restricted {
		testbox.Need(t, "landlock")
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	if !restricted {
		cmd.Env = append(cmd.Env, looseEnv+"=1")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child %s: %v\n%s", name, err, stderr.String())
	}
	res := results{}
	if err := json.Unmarshal(out, &res); err != nil {
		t.Fatalf("child %s printed %q: %v", name, out, err)
	}
	return res
}

func expect(t *testing.T, res results, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if got := res[name]; got != w {
			t.Errorf("%s: %q, want %q", name, got, w)
		}
	}
	if len(res) != len(want) {
		t.Errorf("the child tried %v, want exactly the keys of %v", res, want)
	}
}

func TestMountsAreRefusedInANestedNamespace(t *testing.T) {
	testbox.Need(t, "userns")
	eperm := unix.EPERM.Error()
	expect(t, child(t, "mounts", false, "-"), map[string]string{
		"tmpfs": "ok", "bind": "ok", "remount": "ok", "open_tree": "ok", "move_mount": "ok", "fsmount": "ok",
		"pivot_root": "ok",
	})
	// A detached copy of the tree can still be made, by the kernel's choice of hooks, but
	// it can be put nowhere, and the covered files stay covered in it.
	expect(t, child(t, "mounts", true, "-"), map[string]string{
		"tmpfs": eperm, "bind": eperm, "remount": eperm, "open_tree": "ok", "move_mount": eperm, "fsmount": eperm,
		"pivot_root": eperm,
	})
}

func TestFilesWorkAsBefore(t *testing.T) {
	want := map[string]string{
		"rename": "ok", "rename dir": "ok", "link": "ok", "truncate": "ok", "fifo": "ok", "socket": "ok",
		"symlink": "ok", "remove": "ok", "exec": "ok", "memfd": "ok", "own abstract": "ok", "signal child": "ok",
	}
	expect(t, child(t, "files", false, t.TempDir()), want)
	expect(t, child(t, "files", true, t.TempDir()), want)
}

func TestOutsideIsCutOff(t *testing.T) {
	testbox.Need(t, "landlock")
	if ABI() < ScopeABI {
		t.Skipf("needs landlock version %d, this kernel has %d", ScopeABI, ABI())
	}
	name := fmt.Sprintf("@sbxd-landlock-%d", os.Getpid())
	abstract := listen(t, name)
	path := listen(t, filepath.Join(t.TempDir(), "s"))
	expect(t, child(t, "outside", false, abstract, path), map[string]string{"abstract": "ok", "path": "ok", "signal": "ok"})
	// A socket with a path is a matter of what the mount namespace shows.
	expect(t, child(t, "outside", true, abstract, path), map[string]string{
		"abstract": unix.EPERM.Error(), "path": "ok", "signal": unix.EPERM.Error(),
	})
}

func listen(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return addr
}

func TestAProgramInsideCanRestrictItselfFurther(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, child(t, "again", true, dir), map[string]string{"again": "ok", "inside": "ok", "outside": unix.EACCES.Error()})
}

func TestExecCarriesTheRestrictionToTheWholeProcess(t *testing.T) {
	testbox.Need(t, "userns")
	if got := child(t, "exec", true, "-")["tmpfs"]; got != unix.EPERM.Error() {
		t.Errorf("mount of a tmpfs after execve: %q, want EPERM", got)
	}
}
