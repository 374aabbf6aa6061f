package bwrap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// detach is the attack on masks that every version of bubblewrap lets through. The
// project's directory stays open, a nested user and mount namespace pivots away from the
// tree and drops it; in that namespace the mask is then no mountpoint any more, and the
// masked name can be moved and replaced through the descriptor.
func detach(res results, args []string) error {
	dir, err := os.Open(args[0])
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "stage", "detached")
	cmd.ExtraFiles = []*os.File{dir}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = rootBelow()
	out, err := cmd.Output()
	res.add("clone", errnoOf(err))
	res["inner"] = strings.TrimSpace(string(out))
	return nil
}

// rootBelow describes a process that is root of user and mount namespaces of its own.
func rootBelow() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// detached is root of the nested namespace, with the project as descriptor 3.
func detached(res results, _ []string) error {
	res.add("mount", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""))
	res.add("mkdir", errnoOf(os.Mkdir("/tmp/old", 0o700)))
	res.add("pivot_root", unix.PivotRoot("/tmp", "/tmp/old"))
	res.add("detach", unix.Unmount("/old", unix.MNT_DETACH))
	res.add("move", unix.Renameat(3, ".env", 3, "moved"))
	fd, err := unix.Openat(3, ".env", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	res.add("plant", err)
	if err == nil {
		unix.Close(fd)
	}
	res.add("move .git", unix.Renameat(3, ".git", 3, "git-moved"))
	res.add("plant .git", unix.Mkdirat(3, ".git", 0o700))
	return nil
}

// namespaces tries each way to a namespace by hand.
func namespaces(res results, _ []string) error {
	clone := func(flags uintptr) error {
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, err := unix.Wait4(int(pid), nil, 0, nil)
		return err
	}
	res.add("clone user", clone(unix.CLONE_NEWUSER))
	res.add("clone fork", clone(0))
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	res.add("clone3", errno)
	res.add("unshare user", unix.Unshare(unix.CLONE_NEWUSER))
	res.add("unshare mount", unix.Unshare(unix.CLONE_NEWNS))
	return nil
}

// attacked makes a project with a secret and hooks, and returns it with what `ls` and
// reading show of it.
func attacked(t *testing.T) (string, map[string]string) {
	t.Helper()
	dir := filepath.Join(testbox.TempDir(t), "project")
	uid, gid := testbox.AsUser(t)
	for _, d := range []string{"", ".git", ".git/hooks"} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, d), 0o755), os.Chown(filepath.Join(dir, d), uid, gid)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{".env": "TOKEN=real", ".git/hooks/post-commit": "#!/bin/sh\n", "main.go": "package main\n"} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o644), os.Chown(name, uid, gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, tree(t, dir)
}

// tree maps every path below dir to its inode and, for a file, its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		text := ""
		if d.Type().IsRegular() {
			text = read(p)
		}
		out[p] = fmt.Sprintf("%d %o %q", st.Ino, st.Mode, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each layer alone must keep the host's tree as it is.
func TestDetachAttack(t *testing.T) {
	eperm, enospc := unix.EPERM.Error(), unix.ENOSPC.Error()
	for _, tc := range []struct {
		name  string
		scene scene
		clone string // what the nested namespace's clone says
		inner string // what the first mount in it says; "" when there is no namespace
	}{
		{"with every layer", scene{Landlock: true}, eperm, ""},
		{"with seccomp alone", scene{NoLimit: true}, eperm, ""},
		{"with the limit alone", scene{NoSeccomp: true}, enospc, ""},
		{"with landlock alone", scene{NoSeccomp: true, NoLimit: true, Landlock: true}, "ok", `"mount":"operation not permitted"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.scene.Landlock {
				testbox.Need(t, "landlock")
			}
			if tc.clone == enospc {
				needLimit(t)
			}
			dir, before := attacked(t)
			tc.scene.Project, tc.scene.Mask, tc.scene.Guest = dir, true, []string{"detach", dir}
			got := inside(t, tc.scene)
			if got["clone"] != tc.clone || !strings.Contains(got["inner"], tc.inner) {
				t.Errorf("clone: %q, inside of it: %s; want %q, %s", got["clone"], got["inner"], tc.clone, tc.inner)
			}
			after := tree(t, dir)
			for p, was := range before {
				if after[p] != was {
					t.Errorf("%s: %s, was %s", p, after[p], was)
				}
			}
			if len(after) != len(before) {
				t.Errorf("the project has %d entries, had %d", len(after), len(before))
			}
		})
	}
}

func needLimit(t *testing.T) {
	t.Helper()
	testbox.Need(t, "bwrap")
	if !abilities(t).DisableUserns {
		t.Skip("needs a bubblewrap with --disable-userns (0.8)")
	}
}

// The attack is real: with every layer off it moves the masked secret and plants hooks.
// Should a kernel stop it one day, this test says so.
func TestDetachAttackSucceedsWithoutLayers(t *testing.T) {
	dir, before := attacked(t)
	got := inside(t, scene{NoSeccomp: true, NoLimit: true, Project: dir, Mask: true, Guest: []string{"detach", dir}})
	if got["clone"] != "ok" {
		t.Fatalf("clone: %s", got["clone"])
	}
	after := tree(t, dir)
	if after[filepath.Join(dir, "moved")] != before[filepath.Join(dir, ".env")] {
		t.Errorf("the attack did not move the secret: %s\n%v", got["inner"], after)
	}
}

func TestNamespacesAreRefused(t *testing.T) {
	eperm, enosys, enospc := unix.EPERM.Error(), unix.ENOSYS.Error(), unix.ENOSPC.Error()
	t.Run("by seccomp", func(t *testing.T) {
		expect(t, inside(t, scene{NoLimit: true, Guest: []string{"namespaces"}}), map[string]string{
			"clone user": eperm, "clone fork": "ok", "clone3": enosys, "unshare user": eperm, "unshare mount": eperm,
		})
	})
	t.Run("by the limit", func(t *testing.T) {
		needLimit(t)
		expect(t, inside(t, scene{NoSeccomp: true, Guest: []string{"namespaces"}}), map[string]string{
			"clone user": enospc, "clone fork": "ok", "clone3": unix.EINVAL.Error(),
		})
	})
}

// The payload may fork under Landlock as before, and what it starts is under it too.
func TestLandlockLeavesThePayloadAlone(t *testing.T) {
	testbox.Need(t, "landlock")
	got := inside(t, scene{Landlock: true, Guest: []string{"report"}})
	expect(t, got, map[string]string{"write /tmp": "ok", "write /dev/shm": "ok", "status NoNewPrivs": "1", "pid": "1", "fds": "0 1 2"})
}
