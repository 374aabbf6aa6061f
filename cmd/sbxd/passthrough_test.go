package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestFilesPassThroughTheKernel: with a daemon of root the session's own files are written
// by the kernel itself, which goes on while the shim, their server, does not; also after
// the daemon, whose child registers them, was killed and is another.
func TestFilesPassThroughTheKernel(t *testing.T) {
	testbox.Need(t, "root", "fuse")
	if linux(t) < 609 {
		testbox.Skip(t, "FUSE passthrough", "Linux 6.9 has it")
	}
	b := served(t)
	id := b.run(t, 0, "start", "--project", b.project, "--backend", "unionfs")
	shim := b.status(t, id).Pids["shim"]
	grows := func(name string) {
		b.run(t, 0, "exec", "--detach", id, "--", "sh", "-c", `exec 3<>`+name+`; while echo x >&3; do sleep 0.02; done`)
		size := func() int64 {
			st, err := os.Stat(filepath.Join(b.data(id), "project", "upper", name))
			if err != nil {
				return 0
			}
			return st.Size()
		}
		eventually(t, name+" is written to", func() bool { return size() > 0 })
		must(t, syscall.Kill(shim, syscall.SIGSTOP))
		defer func() { must(t, syscall.Kill(shim, syscall.SIGCONT)) }()
		before := size()
		for range 50 {
			if size() > before+10 {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s has %d bytes and had %d: it does not grow without its server", name, size(), before)
	}
	grows("first")
	b.killDaemon(t)
	b.again(t)
	grows("second")
}

// linux is the version of the kernel: 609 is 6.9.
func linux(t *testing.T) int {
	t.Helper()
	var u unix.Utsname
	must(t, unix.Uname(&u))
	version := [2]int{}
	part := 0
	for _, c := range u.Release {
		switch {
		case c >= '0' && c <= '9':
			version[part] = version[part]*10 + int(c-'0')
		case c == '.' && part == 0:
			part = 1
		default:
			return version[0]*100 + version[1]
		}
	}
	return version[0]*100 + version[1]
}
