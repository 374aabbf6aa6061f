// Package testbox is what the tests of this project stand on: skips that name
// what is missing, suites that fail when they leave something behind, an
// unprivileged user, and tests that run in namespaces of their own.
//
// The one idea: real mounts, processes and ids in tests, and no trace of them
// afterwards. Only tests import it; it knows probes, never the packages that
// are tested.
package testbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/sbxd/sbxd/internal/probe"
)

// needs is what Need knows, by name. Any other name is a program in PATH.
var needs = map[string]func() error{
	"apparmor-4":     apparmor,
	"fuse":           probe.Fuse,
	"landlock":       func() error { _, err := probe.LandlockABI(); return err },
	"overlay-userns": func() error { return probe.OverlayUserNS(Root()) },
	"root":           root,
	"tun":            probe.Tun,
	"unprivileged":   unprivileged,
	"userns":         probe.UserNS,
	"bwrap":          bwrap,
}

var found = struct {
	sync.Mutex // guards the fields below
	results    map[string]error
}{results: map[string]error{}}

// Need skips the test, naming the first of things that this machine does not
// have: bwrap (present and working), userns, overlay-userns, root, unprivileged
// (a uid other than 0 can be had), fuse, tun, landlock, apparmor-4 (a parser that
// knows user namespaces), or a program's name.
// With SBXD_TEST_STRICT=1 a missing thing fails the test instead.
func Need(t testing.TB, things ...string) {
	t.Helper()
	for _, thing := range things {
		err := lookup(thing)
		if err == nil {
			continue
		}
		Skip(t, thing, err.Error())
	}
}

// Skip is what Need does about a missing thing, for what only the test itself can find
// out. It does not return.
func Skip(t testing.TB, thing, why string) {
	t.Helper()
	if os.Getenv("SBXD_TEST_STRICT") == "1" {
		t.Fatalf("needs %s: %s", thing, why)
	}
	t.Skipf("needs %s: %s", thing, why)
}

// lookup probes a thing once for the whole suite.
func lookup(thing string) error {
	found.Lock()
	defer found.Unlock()
	if err, ok := found.results[thing]; ok {
		return err
	}
	f, ok := needs[thing]
	if !ok {
		f = func() error { return probe.Program(thing) }
	}
	err := f()
	found.results[thing] = err
	return err
}

func root() error {
	if os.Geteuid() != 0 {
		return errors.New("this process is not root")
	}
	return nil
}

func apparmor() error {
	if _, err := os.Stat("/etc/apparmor.d/abi/4.0"); err != nil {
		return errors.New("AppArmor 4 is not installed")
	}
	return probe.Program("apparmor_parser")
}

func unprivileged() error {
	if os.Geteuid() != 0 {
		return nil
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = asUser(true)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("become uid %d: %w", uid, err)
	}
	return nil
}

func bwrap() error {
	if err := probe.Program("bwrap"); err != nil {
		return err
	}
	out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("bwrap does not work here: %s", strings.TrimSpace(string(out)))
	}
	return nil
}
