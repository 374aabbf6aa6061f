package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// tryReport tells what a command of a session has got: descriptors, privileges, limits,
// keys, and what it sees of process 1. With an argument it tells that to a file.
func tryReport(r results, args []string) error {
	r["fds"] = openFDs()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp":
			r[name] = strings.TrimLeft(strings.TrimSpace(value), "0")
		}
	}
	limits, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(line, "Max core file size"); ok {
			r["core limit"] = strings.Join(strings.Fields(rest)[:2], " ")
		}
	}
	r.note("raise the core limit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}))
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	r["propagated mounts"] = fmt.Sprint(strings.Count(string(mounts), "master:") + strings.Count(string(mounts), "shared:"))
	cmdline, err := os.ReadFile("/proc/1/cmdline")
	r.note("read the arguments of process 1", err)
	r["arguments of process 1"] = strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
	for _, path := range []string{"/proc/keys", "/proc/key-users"} {
		_, err := os.ReadFile(path)
		r.note("read "+path, err)
	}
	_, err = unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", "sbxd-test", 0)
	r.note("search the session keyring", err)
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/hostname", "/proc/sys/user/max_user_namespaces",
		"/proc/sys/vm/drop_caches", "/etc/passwd", "/usr/bin/env", "/run/sbxbin/sbxd", "/run/x", "/x", "/dev/kmsg", "/dev/x",
	} {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		r.note("write "+path, err)
		if err == nil {
			f.Close()
		}
	}
	if len(args) == 0 {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], text, 0o644)
}

// openFDs lists the open descriptors but the one of the listing.
func openFDs() string {
	var open []string
	for fd := range 1024 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // it is closed, or this program's own: execve would have closed it
		}
		to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if strings.Contains(to, "eventpoll") || strings.Contains(to, "eventfd") {
			continue // the Go runtime's
		}
		open = append(open, fmt.Sprint(fd))
	}
	return strings.Join(open, " ")
}

// nothingInherited is what tryReport has to tell.
var nothingInherited = map[string]string{
	"fds": "0 1 2", "CapInh": "", "CapPrm": "", "CapEff": "", "CapBnd": "", "CapAmb": "", "NoNewPrivs": "1", "Seccomp": "2",
	"core limit": "0 0", "raise the core limit": "EPERM", "propagated mounts": "0",
	"arguments of process 1": "/run/sbxbin/sbxd guest 4",
	"read /proc/keys":        "EACCES|ENOENT", "read /proc/key-users": "EACCES|ENOENT", "search the session keyring": "EPERM",
	"write /proc/sys/kernel/core_pattern": "EACCES|EROFS", "write /proc/sysrq-trigger": "EACCES|EROFS|ENOENT",
	"write /proc/sys/kernel/hostname": "EACCES|EROFS", "write /proc/sys/user/max_user_namespaces": "EACCES|EROFS",
	"write /proc/sys/vm/drop_caches": "EACCES|EROFS", "write /etc/passwd": "EROFS|EACCES", "write /usr/bin/env": "EROFS|ETXTBSY|EACCES",
	"write /run/sbxbin/sbxd": "EROFS|ETXTBSY|EACCES", "write /run/x": "EROFS", "write /x": "EROFS", "write /dev/kmsg": "EROFS|EACCES", "write /dev/x": "EROFS|EACCES",
}

// tryWithKey puts the calling process into a session keyring that holds a key, and then
// becomes the program of its arguments.
func tryWithKey(_ results, args []string) error {
	if _, err := unix.KeyctlJoinSessionKeyring("sbxd-test"); err != nil {
		return err
	}
	kind, name, payload := []byte("user\x00"), []byte("sbxd-test\x00"), []byte(secret)
	_, _, errno := unix.Syscall6(unix.SYS_ADD_KEY, uintptr(unsafe.Pointer(&kind[0])), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&payload[0])), uintptr(len(payload)), ^uintptr(2), 0) // KEY_SPEC_SESSION_KEYRING is -3
	if errno != 0 {
		return errno
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// TestEscapeByWhatIsInherited looks for what a session could have been left: descriptors
// of a careless parent of the daemon, its keys, environment, arguments and privileges; in
// every way in which a command can be started.
func TestEscapeByWhatIsInherited(t *testing.T) {
	t.Parallel()
	needLayers(t)
	b := served(t)
	b.plant(t, map[string]string{".ssh/id": secret})
	dir, err := weapon()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.Open(b.home)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	b.via = func(c *exec.Cmd) {
		c.Args = append([]string{"attacker", "attack", "with-key", c.Path}, c.Args[1:]...)
		c.Path = filepath.Join(dir, "attacker")
		c.ExtraFiles = []*os.File{home, home, home, home, home, home, home}
		c.Env = append(c.Env, "AWS_SECRET_ACCESS_KEY="+secret, "HOST_SECRET="+secret)
	}
	if err := b.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	expect(t, runTrick(t, b.underKey(dir, "report")), map[string]string{"search the session keyring": "ok|ENOSYS"})
	i := b.intrude(t)

	check := func(t *testing.T, got results) {
		t.Helper()
		expect(t, got, nothingInherited)
	}
	t.Run("exec", func(t *testing.T) {
		check(t, i.try("report"))
		check(t, i.try("report"))
	})
	t.Run("exec on a terminal", func(t *testing.T) {
		cmd := b.cmd("exec", "-t", i.id, "--", i.weapon, "attack", "report", b.project+"/tty")
		ptmx, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		defer ptmx.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		check(t, i.told("tty"))
	})
	t.Run("exec, detached", func(t *testing.T) {
		b.run(t, 0, "exec", "--detach", i.id, "--", i.weapon, "attack", "report", b.project+"/detached")
		check(t, i.told("detached"))
	})
	t.Run("run", func(t *testing.T) {
		check(t, runTrick(t, b.cmd("run", "--project", b.project, "--ro", dir, "--", i.weapon, "attack", "report")))
	})
	t.Run("resume", func(t *testing.T) {
		b.run(t, 0, "stop", i.id)
		b.run(t, 0, "resume", i.id)
		check(t, i.try("report"))
	})
	t.Run("the keyring is empty, not only out of reach", func(t *testing.T) {
		if !tagged("sbxdtest") {
			t.Skip("needs a test binary with the tag sbxdtest")
		}
		expect(t, b.without(t, "seccomp").intrude(t).try("report"), map[string]string{"Seccomp": "", "search the session keyring": "ENOKEY|ENOSYS"})
	})
	t.Run("process 1 and those above it have nothing of the daemon", func(t *testing.T) {
		testbox.Need(t, "root")
		for _, name := range []string{"shim", "bwrap", "guest"} {
			pid := b.run(t, 0, "status", "--json", i.id)
			var s struct{ Pids map[string]int }
			if err := json.Unmarshal([]byte(pid), &s); err != nil || s.Pids[name] == 0 {
				t.Fatalf("which process is the %s? %v %s", name, err, pid)
			}
			for _, file := range []string{"environ", "cmdline"} {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.Pids[name], file))
				if err != nil {
					t.Error(err)
				}
				for _, bad := range []string{secret, b.home, ".ssh"} {
					if strings.Contains(string(text), bad) {
						t.Errorf("the %s of the %s holds %q: %q", file, name, bad, text)
					}
				}
			}
			if name == "guest" {
				env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.Pids[name]))
				if err != nil || len(slices.DeleteFunc(strings.Split(string(env), "\x00"), func(kv string) bool {
					return kv == "" || strings.HasPrefix(kv, "PWD=")
				})) > 0 {
					t.Errorf("the environment of the guest is %q, %v", env, err)
				}
			}
		}
	})
}

// underKey is an attack outside of any session, with the key that the daemon has.
func (b *box) underKey(dir, attack string) *exec.Cmd {
	program := filepath.Join(dir, "attacker")
	return exec.Command(program, "attack", "with-key", program, "attack", attack)
}

// told waits for a report that a command writes into the project.
func (i *intruder) told(name string) results {
	i.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		out, _ := i.exec("cat", name)
		r := results{}
		if json.Unmarshal([]byte(out), &r) == nil {
			return r
		}
	}
	i.t.Fatalf("no report came to %s", name)
	return nil
}
