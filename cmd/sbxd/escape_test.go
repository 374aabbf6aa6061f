package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/internal/testbox"
)

// The tests named TestEscape play the attacker: they run in sessions of the real command
// and try what a hostile agent would. Each file is one family of tricks. What needs
// system calls is done by this very test binary, which sessions see read-only.

// secret is what no session may ever read.
const secret = "xyzzy-SECRET-plugh"

// trick notes by name what came of each of its attempts.
type trick func(r results, args []string) error

var tricks = map[string]trick{
	"bomb":       tryBomb,
	"connect":    tryConnect,
	"detach":     tryDetach,
	"detached":   tryDetached,
	"greeting":   tryGreeting,
	"guest":      tryGuest,
	"int80":      tryInt80,
	"marks":      tryMarks,
	"masks":      tryMasks,
	"names":      tryNames,
	"namespaces": tryNamespaces,
	"report":     tryReport,
	"socket":     trySocketFile,
	"syscalls":   trySyscalls,
	"with-key":   tryWithKey,
	"with-run":   tryWithRun,
}

type results map[string]string

// note takes down how an attempt ended: ok, or the name of the error.
func (r results) note(name string, err error) {
	var errno syscall.Errno
	switch {
	case err == nil:
		r[name] = "ok"
	case errors.As(err, &errno) && unix.ErrnoName(errno) != "":
		r[name] = unix.ErrnoName(errno)
	default:
		r[name] = err.Error()
	}
}

// attacker is the whole life of the attacker's program, in a session or beside one.
func attacker(args []string) int {
	r := results{}
	f, ok := tricks[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "there is no attack %q\n", args[0])
		return 2
	}
	if err := f(r, args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	return 0
}

// weapon is a directory with nothing but the attacker's program in it.
var weapon = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(testbox.Root(), "weapon")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "attacker"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return dir, errors.Join(err, to.Close())
})

// intruder is a session that the attacker has a command in.
type intruder struct {
	*box
	t      *testing.T
	id     string
	weapon string
}

// testBackend names, where it is set, the backend of the sessions that intruders get.
const testBackend = "SBXD_TEST_BACKEND"

// intrude starts a session on the project, unless flags name another one, and sees to
// it that it ends.
func (b *box) intrude(t *testing.T, flags ...string) *intruder {
	t.Helper()
	dir, err := weapon()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"start", "--ro", dir}, flags...)
	if backend := os.Getenv(testBackend); backend != "" && !slices.Contains(flags, "--backend") {
		args = append(args, "--backend", backend)
	}
	if !slices.Contains(flags, "--project") {
		args = append(args, "--project", b.project)
	}
	return &intruder{box: b, t: t, id: b.run(t, 0, args...), weapon: filepath.Join(dir, "attacker")}
}

// exec runs a command inside and returns what it printed, and its exit code.
func (i *intruder) exec(argv ...string) (string, int) {
	i.t.Helper()
	cmd := i.cmd(append([]string{"exec", i.id, "--"}, argv...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		i.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// sbxd runs the command on the host and returns what it said, and its exit code.
func (b *box) sbxd(args ...string) (string, int) {
	cmd := b.cmd(args...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// sh runs a shell script inside that has to end well, and returns what it printed.
func (i *intruder) sh(script string, args ...string) string {
	i.t.Helper()
	out, code := i.exec(append([]string{"sh", "-c", script, "sh"}, args...)...)
	if code != 0 {
		i.t.Errorf("inside, this ended with %d:\n%s\n%s", code, script, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// refuses runs a script inside that must not succeed.
func (i *intruder) refuses(script string, args ...string) {
	i.t.Helper()
	if out, code := i.exec(append([]string{"sh", "-c", script, "sh"}, args...)...); code == 0 {
		i.t.Errorf("inside, this succeeded: %s %q\n%s", script, args, out)
	}
}

// try runs an attack inside.
func (i *intruder) try(name string, args ...string) results {
	i.t.Helper()
	return runTrick(i.t, i.cmd(append([]string{"exec", i.id, "--", i.weapon, "attack", name}, args...)...))
}

// runTrick runs sbxd with an attack and reads what that tells.
func runTrick(t *testing.T, cmd *exec.Cmd) results {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	r := results{}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", cmd.Args, err, out, &stderr)
	}
	return r
}

// onTerminal runs a command with a terminal and returns all that is seen on it.
func onTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	ptmx, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	var out strings.Builder
	_, _ = io.Copy(&out, ptmx) // ends with EIO
	_ = cmd.Wait()
	return out.String()
}

// expect compares results; a wanted value may name several, separated by |.
func expect(t *testing.T, got results, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if g, ok := got[name]; !ok || !slices.Contains(strings.Split(w, "|"), g) {
			t.Errorf("%s: %q, want %s", name, g, w)
		}
	}
}

// hunt looks for the secret wherever a session shows something of its user or keeps its
// own,
// and fails the test when it is there.
func (i *intruder) hunt() {
	i.t.Helper()
	out, _ := i.exec("sh", "-c", `grep -rasl --exclude-dir=weapon -e "$0" "$HOME" . /tmp /var/tmp /run /dev/shm 2>/dev/null
		find "$HOME" . /tmp /var/tmp /run /dev/shm -name "*$0*" 2>/dev/null`, secret)
	if strings.TrimSpace(out) != "" {
		i.t.Errorf("the secret is to be had at\n%s", out)
	}
}

// plant writes files of the owner, below HOME unless a name is absolute. A name that
// ends with a slash is a directory.
func (b *box) plant(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		dir := strings.HasSuffix(name, "/")
		if !filepath.IsAbs(name) {
			name = filepath.Join(b.home, name)
		}
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if dir {
			err = errors.Join(err, os.MkdirAll(name, 0o755))
		} else {
			err = errors.Join(err, os.WriteFile(name, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	uid, gid := testbox.AsUser(t)
	for _, dir := range []string{b.home, filepath.Join(b.dir, "w")} {
		if _, err := os.Lstat(dir); err != nil {
			continue
		}
		if err := give(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
}

// owner runs a shell script of the host's as the owner, in HOME.
func (b *box) owner(t *testing.T, script string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(b.dir, "bin", "owner"), append([]string{"sh", "-ec", script, "sh"}, args...)...)
	cmd.Env, cmd.Dir = b.env, b.home
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("on the host: %v: %s\n%s", err, script, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// refused runs sbxd, which has to end with code and to say one line that matches each of
// the words, and nothing to keep.
func (b *box) refused(t *testing.T, code int, words string, args ...string) {
	t.Helper()
	cmd := b.cmd(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("sbxd %q: exit code %d, want %d\n%s", args, got, code, out)
	}
	for _, w := range strings.Fields(words) {
		if !strings.Contains(string(out), w) {
			t.Errorf("sbxd %q does not say %q:\n%s", args, w, out)
		}
	}
}

// needLayers skips a test when a layer that it tries is switched off.
func needLayers(t *testing.T) {
	t.Helper()
	for _, layer := range []string{feature.Seccomp, feature.Landlock, feature.UserNSLimit} {
		if feature.Off(layer) {
			t.Skipf("needs %s, which is switched off", layer)
		}
	}
}

// tagged reports whether this binary was built with a tag.
func tagged(tag string) bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), tag) {
			return true
		}
	}
	return false
}

// data is the directory of a session's views.
func (b *box) data(id string) string {
	found, _ := filepath.Glob(filepath.Join(b.dir, "state", "*", "sessions", id, "project"))
	found2, _ := filepath.Glob(filepath.Join(b.dir, "state", "sessions", id, "project"))
	for _, p := range append(found, found2...) {
		return filepath.Dir(p)
	}
	return filepath.Join(b.dir, "no-such-session")
}
