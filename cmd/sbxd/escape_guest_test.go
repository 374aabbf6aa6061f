package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// tryGuest attacks process 1, which has the same uid.
func tryGuest(r results, _ []string) error {
	r.note("ptrace attach", unix.PtraceAttach(1))
	r.note("ptrace seize", unix.PtraceSeize(1))
	for _, name := range []string{"mem", "environ", "maps", "stack", "auxv", "syscall", "fd/3", "fd/4", "map_files", "io"} {
		f, err := os.Open("/proc/1/" + name)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
			f.Close()
		}
		r.note("read "+name, err)
	}
	for _, name := range []string{"mem", "oom_score_adj", "comm", "coredump_filter", "clear_refs"} {
		f, err := os.OpenFile("/proc/1/"+name, os.O_WRONLY, 0)
		r.note("write "+name, err)
		if err == nil {
			f.Close()
		}
	}
	_, err := os.ReadDir("/proc/1/fd")
	r.note("list fd", err)
	for _, name := range []string{"root", "cwd", "exe", "ns/user"} {
		_, err := os.Readlink("/proc/1/" + name)
		r.note("link "+name, err)
	}
	var word [8]byte
	local := []unix.Iovec{{Base: &word[0], Len: 8}}
	_, err = unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	r.note("process_vm_readv", err)
	_, err = unix.ProcessVMWritev(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	r.note("process_vm_writev", err)
	pidfd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return fmt.Errorf("open a pidfd of process 1: %w", err)
	}
	for fd := range 10 {
		_, err := unix.PidfdGetfd(pidfd, fd, 0)
		r.note("pidfd_getfd "+strconv.Itoa(fd), err)
	}
	_, _, errno := unix.Syscall6(unix.SYS_KCMP, 1, uintptr(os.Getpid()), 0, 0, 0, 0)
	r.note("kcmp", errno)
	for sig := unix.Signal(1); sig <= 64; sig++ {
		r.note(fmt.Sprintf("signal %d", sig), unix.Kill(1, sig))
		r.note(fmt.Sprintf("pidfd signal %d", sig), unix.PidfdSendSignal(pidfd, sig, nil, 0))
	}
	return nil
}

// TestEscapeByTheGuest attacks process 1, and plays it.
func TestEscapeByTheGuest(t *testing.T) {
	t.Parallel()
	needLayers(t)
	b := served(t)
	i := b.intrude(t)

	t.Run("it cannot be looked into, taken over or ended", func(t *testing.T) {
		got := i.try("guest")
		want := map[string]string{}
		for name := range got {
			switch {
			case strings.Contains(name, "signal "):
				want[name] = "EPERM|ok" // ok: without Landlock's scopes; caught or without effect
			default:
				want[name] = "EPERM|EACCES|ENOENT"
			}
		}
		if len(want) < 150 {
			t.Errorf("only %d attempts were made", len(want))
		}
		expect(t, got, want)
		i.sh("true")
	})

	t.Run("it can be starved, and the session ends and begins all the same", func(t *testing.T) {
		testbox.Need(t, "prlimit")
		i.sh("prlimit --pid 1 --nofile=0 --nproc=0 --fsize=0 --as=1")
		i.refuses("true")
		b.run(t, 0, "stop", i.id)
		b.run(t, 0, "resume", i.id)
		i.sh("true")
	})

	t.Run("a guest of the attacker's own speaks to nobody", func(t *testing.T) {
		for _, stage := range []string{"guest 4", "guest 3", "shim", "holder", "worker"} {
			out, code := i.exec("sh", "-c", "SBXD_STAGE=x timeout 5 /run/sbxbin/sbxd "+stage+" </dev/null")
			if code == 0 || strings.Contains(out, "panic") {
				t.Errorf("%s ended with %d: %s", stage, code, out)
			}
		}
		i.sh("true")
	})

	t.Run("its program stays in its place", func(t *testing.T) {
		for _, cmd := range []string{
			"mv /run/sbxbin /run/x", "mv /run/sbxbin/sbxd /run/sbxbin/x", "rm -f /run/sbxbin/sbxd", "rm -rf /run/sbxbin",
			"cp /bin/true /run/sbxbin/sbxd", "ln -sf /bin/true /run/sbxbin/sbxd", "mkdir /run/other", "chmod 777 /run/sbxbin",
			"ln -s /tmp /run/sbxd", "mv /tmp /x", "mv /run /x", "rmdir /run/user", "mv $XDG_RUNTIME_DIR /run/user/1",
		} {
			i.refuses(cmd)
		}
		i.sh("test -x /run/sbxbin/sbxd && test -w $XDG_RUNTIME_DIR")
	})

	t.Run("no way to the daemon", func(t *testing.T) {
		// No socket of sbxd is to be seen, and the command line inside finds none.
		if out := i.sh("find / -xdev -type s 2>/dev/null; find /run /tmp /var $HOME -type s 2>/dev/null"); out != "" {
			t.Errorf("sockets inside: %s", out)
		}
		for _, socket := range []string{
			filepath.Join(b.dir, "run", "sbxd.sock"), filepath.Join(b.dir, "state", "run", "s", i.id+".sock"),
			"/run/sbxd/sbxd.sock", "/run/user/0/sbxd/sbxd.sock",
		} {
			out, code := i.exec("/run/sbxbin/sbxd", "list", "--socket", socket)
			if code != 12 {
				t.Errorf("sbxd list on %s ended with %d: %s", socket, code, out)
			}
		}
		i.refuses("ls -d \"$1\"", filepath.Join(b.dir, "state"))
		i.refuses("cat \"$1\"", filepath.Join(b.dir, "config.toml"))
	})
}
