package testbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a suite's last children may take to end.
const grace = 3 * time.Second

var suite struct {
	sync.Once
	dir string
}

// Root returns the suite's own directory, short and below /tmp, mode 0755. Main
// removes it.
func Root() string {
	suite.Do(func() {
		dir, err := os.MkdirTemp("/tmp", "sbxt")
		if err != nil {
			panic(fmt.Sprintf("make the suite's directory: %v", err))
		}
		_ = os.Chmod(dir, 0o755)
		suite.dir = dir
	})
	return suite.dir
}

// Main runs a suite from TestMain and ends the process. The suite fails when it
// leaves a mount below its directory, or a process: orphans of the tests become
// children of this one, so none is overlooked. More checks run at the end, such
// as goleak's Find.
func Main(m *testing.M, checks ...func() error) { os.Exit(run(m, checks)) }

func run(m *testing.M, checks []func() error) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintf(os.Stderr, "testbox: become subreaper: %v\n", err)
		return 1
	}
	if err := os.Setenv("TMPDIR", Root()); err != nil {
		return 1
	}
	code := m.Run()
	var errs []error
	for _, check := range append(checks, leftProcesses, leftMounts) {
		errs = append(errs, check())
	}
	if err := os.RemoveAll(Root()); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "testbox: the suite left something behind:\n%v\n", err)
		return max(code, 1)
	}
	return code
}

// leftProcesses waits for the last children, then names and kills those that
// stay.
func leftProcesses() error {
	for end := time.Now().Add(grace); ; time.Sleep(10 * time.Millisecond) {
		reap()
		left := children()
		if len(left) == 0 {
			return nil
		}
		if time.Now().Before(end) {
			continue
		}
		var errs []error
		for _, pid := range left {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			errs = append(errs, fmt.Errorf("process %d: %q", pid, strings.ReplaceAll(string(cmdline), "\x00", " ")))
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		return errors.Join(errs...)
	}
}

func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}

// children lists this process's children by the parent that each /proc/PID/stat
// names: /proc/self/task/*/children is not there in every kernel.
func children() []int {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var out []int
	me := strconv.Itoa(os.Getpid())
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == me {
			pid, err := strconv.Atoi(strings.Split(name, "/")[2])
			if err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// leftMounts names and detaches the mounts that stay below the suite's
// directory. Mounts elsewhere may be those of another suite.
func leftMounts() error {
	var errs []error
	for _, point := range MountsBelow(Root()) {
		errs = append(errs, fmt.Errorf("mount %q", point))
		_ = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	return errors.Join(errs...)
}

// MountsBelow lists the mountpoints at or below dir in this process's mount
// table, last mounted first.
func MountsBelow(dir string) []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []string
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		point := unescape.Replace(f[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			out = append([]string{point}, out...)
		}
	}
	return out
}

// unescape undoes the four escapes of /proc/PID/mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
