package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// tryGreeting connects to each socket of its arguments and notes who is greeted: a
// server that admits nobody closes without a word.
func tryGreeting(r results, args []string) error {
	for _, path := range args {
		c, err := net.DialTimeout("unix", path, 5*time.Second)
		if err != nil {
			r.note(path, err)
			continue
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1))
		if err != nil {
			err = errors.New("turned away")
		}
		r.note(path, err)
		c.Close()
	}
	return nil
}

// as makes cmd run with a uid, and elsewhere in a user namespace of its own, where the
// uid is the same.
func as(cmd *exec.Cmd, uid int, elsewhere bool) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 && uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	if !elsewhere {
		return cmd
	}
	if cmd.SysProcAttr.Credential != nil {
		// The uid first, the namespace then.
		cmd.Args = append([]string{"setpriv", "--reuid", fmt.Sprint(uid), "--regid", fmt.Sprint(uid), "--clear-groups", "unshare", "--user", "--map-current-user", "--"}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
		cmd.Path = "/usr/bin/setpriv"
		cmd.SysProcAttr = nil
		return cmd
	}
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	return cmd
}

func code(t *testing.T, cmd *exec.Cmd) (int, string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestEscapeByTheSocketsOfSbxd asks the daemon, and a shim, from another user namespace,
// as a process would that found a way to their sockets.
func TestEscapeByTheSocketsOfSbxd(t *testing.T) {
	t.Parallel()
	testbox.Need(t, "setpriv", "unshare")
	b := served(t)
	b.asUser(t)
	i := b.intrude(t)
	api := filepath.Join(b.dir, "run", "sbxd.sock")
	shim := filepath.Join(b.dir, "state", "run", "s", i.id+".sock")
	for _, p := range []string{api, shim} {
		st, err := os.Stat(p)
		if err != nil || st.Mode().Perm() != 0o600 || int(st.Sys().(*syscall.Stat_t).Uid) != b.uid {
			t.Errorf("%s: %v %v", p, st.Mode(), err)
		}
	}
	for _, elsewhere := range []bool{false, true} {
		want, greeted := 0, "ok"
		if elsewhere {
			want, greeted = 11, "turned away"
		}
		for _, args := range [][]string{{"list"}, {"status", i.id}, {"start", "--project", b.project}, {"land", "--yes", i.id}, {"exec", i.id, "--", "true"}} {
			if args[0] == "start" && !elsewhere {
				continue
			}
			got, out := code(t, as(b.cmd(args...), b.uid, elsewhere))
			if got != want && !(args[0] == "land" && got == 3) {
				t.Errorf("elsewhere=%v: sbxd %q ended with %d, want %d: %s", elsewhere, args, got, want, out)
			}
		}
		cmd := exec.Command(i.weapon, "attack", "greeting", shim)
		expect(t, runTrick(t, as(cmd, b.uid, elsewhere)), map[string]string{shim: greeted})
	}
}

// asUser starts the daemon anew as an ordinary user's, with all that is in the box.
func (b *box) asUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	uid, gid := testbox.AsUser(t)
	err := errors.Join(b.end(syscall.SIGTERM), os.RemoveAll(filepath.Join(b.dir, "state")), give(b.dir, uid, gid))
	b.runAs = nil
	b.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := errors.Join(err, b.serve()); err != nil {
		t.Fatal(err)
	}
}

// TestEscapeToAnotherUser has sessions of two users under one daemon. Neither sees the
// other's, not by the API, should its socket be open to them, and not from inside.
func TestEscapeToAnotherUser(t *testing.T) {
	t.Parallel()
	testbox.Need(t, "root")
	b := served(t)
	const other = 12346
	home := filepath.Join(b.dir, "home2")
	if err := errors.Join(os.MkdirAll(home+"/app", 0o755), os.WriteFile(home+"/app/f", []byte(secret), 0o600), give(home, other, other), os.Chmod(home, 0o700)); err != nil {
		t.Fatal(err)
	}
	dir, err := weapon()
	if err != nil {
		t.Fatal(err)
	}
	start := b.cmd("start", "--project", home+"/app", "--name", "theirs", "--run-as", fmt.Sprint(other), "--ro", dir)
	start.Env = append(start.Env, "HOME="+home)
	out, err := start.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.TrimSpace(string(out))
	mine := b.intrude(t, "--name", "mine")

	t.Run("by the API", func(t *testing.T) {
		if got, out := code(t, as(b.cmd("list"), b.uid, false)); got != 12 && got != 11 {
			t.Errorf("the socket is open to uid %d: %d %s", b.uid, got, out)
		}
		socket := filepath.Join(b.dir, "run", "sbxd.sock")
		if err := errors.Join(os.Chmod(socket, 0o666), os.Chmod(filepath.Dir(socket), 0o755)); err != nil {
			t.Fatal(err)
		}
		got, out := code(t, as(b.cmd("list", "-q"), b.uid, false))
		if got != 0 || strings.TrimSpace(out) != mine.id {
			t.Errorf("list ended with %d: %s", got, out)
		}
		for _, ref := range []string{theirs, "theirs"} {
			for _, args := range [][]string{
				{"status", ref},
				{"exec", ref, "--", "true"},
				{"diff", ref},
				{"land", "--yes", ref},
				{"stop", ref},
				{"resume", ref},
				{"rm", "--discard", ref},
				{"policy", "explain", "/etc", ref},
				{"start", "--project", b.project, "--parent", ref},
			} {
				if got, out := code(t, as(b.cmd(args...), b.uid, false)); got != 10 {
					t.Errorf("sbxd %q ended with %d, want 10: %s", args, got, out)
				}
			}
		}
		if got, out := code(t, as(b.cmd("start", "--project", b.project, "--run-as", fmt.Sprint(other)), b.uid, false)); got != 11 {
			t.Errorf("run-as another: %d %s", got, out)
		}
		if got, out := code(t, as(b.cmd("start", "--project", home+"/app"), b.uid, false)); got == 0 {
			t.Errorf("a project that this user may not read: %s", out)
		}
	})

	t.Run("by its files and sockets", func(t *testing.T) {
		state := filepath.Join(b.dir, "state")
		for _, path := range []string{
			state + "/12346", state + "/12346/sessions", state + "/12346/sessions/" + theirs, state + "/root", state + "/root/sessions/" + theirs + "/session.json",
			state + "/root/sessions/" + theirs + "/env", state + "/root/sessions/" + mine.id + "/env", state + "/root/sessions/" + mine.id + "/session.json",
		} {
			if got, out := code(t, as(exec.Command("cat", path), b.uid, false)); got == 0 || !strings.Contains(out, "ermission denied") {
				t.Errorf("cat %s: %d %s", path, got, out)
			}
		}
		sockets := []string{state + "/run/s/" + theirs + ".sock"}
		for path, got := range runTrick(t, as(exec.Command(mine.weapon, "attack", "greeting", sockets[0]), b.uid, false)) {
			if got != "EACCES" && got != "turned away" {
				t.Errorf("%s: %s", path, got)
			}
		}
	})

	t.Run("from inside", func(t *testing.T) {
		mine.hunt()
		out := mine.sh("ls /proc | grep -c '^[0-9]' ; ls -d /proc/[0-9]*/root/tmp 2>/dev/null | wc -l; id -u; cat /proc/*/cmdline | tr '\\0' ' '")
		if strings.Contains(out, theirs) || !strings.Contains(out, fmt.Sprint(b.uid)) {
			t.Errorf("inside: %s", out)
		}
	})

	b.run(t, 0, "rm", "--discard", theirs)
}

// TestEscapeToRoot asks a root daemon for a session of root's.
func TestEscapeToRoot(t *testing.T) {
	t.Parallel()
	testbox.Need(t, "root")
	b := served(t)
	for _, user := range []string{"root", "0", "0:0", "0:12345", "12345:0"} {
		b.refused(t, 7, "0", "start", "--project", b.project, "--run-as", user)
	}
	runAs := b.runAs
	if err := b.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.runAs = nil
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	b.refused(t, 7, "--run-as", "start", "--project", b.project)
	b.refused(t, 7, "--run-as", "run", "--project", b.project, "--", "id")
	i := b.intrude(t, runAs...)
	if out := i.sh("id -u; grep -E '^(Uid|Gid|Groups)' /proc/self/status | tr -s '\\t ' ' '"); strings.Contains(out, " 0") || !strings.HasPrefix(out, fmt.Sprint(b.uid)+"\n") {
		t.Errorf("inside: %s", out)
	}
	b.run(t, 0, "rm", "--discard", i.id)
	b.runAs = runAs
}
