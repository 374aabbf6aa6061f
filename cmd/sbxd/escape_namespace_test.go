package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tryDetach is what every bubblewrap lets through by itself: with the project's directory
// open, a nested user and mount namespace pivots away from the tree and drops it. There
// the masks are mountpoints no more, and the masked file can be moved through the
// descriptor: into the changeset, with all that is in it, while another takes its name.
func tryDetach(r results, args []string) error {
	dir, err := os.Open(args[0])
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "attack", "detached")
	cmd.ExtraFiles = []*os.File{dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	r.note("clone", err)
	r["inner"] = string(out)
	return nil
}

// tryDetached is root of the nested namespace, with the project as descriptor 3.
func tryDetached(r results, _ []string) error {
	r.note("mount", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""))
	_ = os.Mkdir("/tmp/old", 0o700)
	r.note("pivot_root", unix.PivotRoot("/tmp", "/tmp/old"))
	r.note("umount", unix.Unmount("/old", unix.MNT_DETACH))
	r.note("move", unix.Renameat(3, ".env", 3, "moved"))
	fd, err := unix.Openat(3, ".env", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	r.note("plant", err)
	if err == nil {
		unix.Close(fd)
	}
	return nil
}

// tryNamespaces tries each call that makes or changes namespaces and mounts. Its
// arguments are a masked file and a masked directory.
func tryNamespaces(r results, args []string) error {
	file, dir := args[0], args[1]
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
	r.note("clone user", clone(unix.CLONE_NEWUSER))
	r.note("clone user mount", clone(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	r.note("fork", clone(0))
	how := struct{ flags [11]uint64 }{}
	how.flags[0] = unix.CLONE_NEWUSER
	how.flags[4] = uint64(unix.SIGCHLD)
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0)
	r.note("clone3", errno)
	r.note("unshare user", unix.Unshare(unix.CLONE_NEWUSER))
	r.note("unshare user mount", unix.Unshare(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	r.note("unshare mount", unix.Unshare(unix.CLONE_NEWNS))
	for _, ns := range []string{"mnt", "user", "net"} {
		fd, err := unix.Open("/proc/self/ns/"+ns, unix.O_RDONLY, 0)
		if err == nil {
			err = unix.Setns(fd, 0)
		}
		r.note("setns "+ns, err)
	}
	for _, path := range []string{file, dir} {
		what := filepath.Base(path)
		r.note("umount "+what, unix.Unmount(path, 0))
		r.note("detach "+what, unix.Unmount(path, unix.MNT_DETACH))
		r.note("remount "+what, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
		r.note("move "+what, unix.Mount(path, "/tmp", "", unix.MS_MOVE, ""))
		r.note("bind over "+what, unix.Mount("/tmp", path, "", unix.MS_BIND, ""))
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE)
		r.note("open_tree "+what, err)
		_ = unix.Close(fd)
		r.note("mount_setattr "+what, unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
	}
	r.note("bind", unix.Mount(filepath.Dir(file), "/tmp", "", unix.MS_BIND, ""))
	r.note("tmpfs", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""))
	r.note("pivot_root", unix.PivotRoot("/", "/"))
	r.note("chroot", unix.Chroot("/tmp"))
	fd, err := unix.Fsopen("tmpfs", 0)
	r.note("fsopen", err)
	_ = unix.Close(fd)
	r.note("name_to_handle", byHandle(dir))
	return nil
}

// byHandle opens a directory by its handle, past every mount.
func byHandle(path string) error {
	h, id, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return err
	}
	_ = id
	at, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer at.Close()
	fd, err := unix.OpenByHandleAt(int(at.Fd()), h, unix.O_RDONLY)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// TestEscapeByNamespaces is the attack of facts about nested user namespaces: with all
// layers, then with each of the three alone. Without any of them it has to succeed, or
// it would prove nothing.
func TestEscapeByNamespaces(t *testing.T) {
	t.Parallel()
	needLayers(t)
	b := served(t)
	b.plant(t, map[string]string{"app/.env": secret, "app/hooks/post": secret, "app/main.go": "package main\n"})
	before := b.owner(t, "cd app && find . -printf '%i %m %p\n' | sort && cat .env")
	nothing := func(t *testing.T, i *intruder) {
		t.Helper()
		i.hunt()
		if after := b.owner(t, "cd app && find . -printf '%i %m %p\n' | sort && cat .env"); after != before {
			t.Errorf("the host's tree was\n%s\nand is\n%s", before, after)
		}
		if diff := b.run(t, 0, "diff", "--stat", i.id); strings.Contains(diff, "moved") || strings.Contains(diff, ".env") {
			t.Errorf("the attack is a change of the session: %s", diff)
		}
	}

	t.Run("every call is refused", func(t *testing.T) {
		i := b.intrude(t, "--mask", ".env", "--mask", "hooks")
		got := i.try("namespaces", b.project+"/.env", b.project+"/hooks")
		const no = "EPERM|ENOSYS|ENOSPC"
		want := map[string]string{"fork": "ok"}
		for name := range got {
			if name != "fork" {
				want[name] = no
			}
		}
		if len(want) < 30 {
			t.Errorf("only %d attempts were made", len(want))
		}
		want["name_to_handle"] = "EPERM|EOPNOTSUPP"
		expect(t, got, want)
		expect(t, i.try("detach", b.project), map[string]string{"clone": no, "inner": ""})
		nothing(t, i)
	})

	layers := []string{"seccomp", "landlock", "userns-limit"}
	for n, alone := range append(layers, "none of them") {
		t.Run("alone holds "+alone, func(t *testing.T) {
			if !tagged("sbxdtest") {
				t.Skip("needs a test binary with the tag sbxdtest")
			}
			var off []string
			for m, l := range layers {
				if m != n {
					off = append(off, l)
				}
			}
			again := b.without(t, off...)
			i := again.intrude(t, "--mask", ".env", "--mask", "hooks")
			got := i.try("detach", b.project)
			if n == len(layers) {
				moved := filepath.Join(b.data(i.id), "project", "upper", "moved")
				if text, err := os.ReadFile(moved); err != nil || string(text) != secret {
					t.Errorf("without any layer the attack does not work, so it shows nothing: %v %v", err, got)
				}
				b.run(t, 0, "rm", "--discard", i.id)
				return
			}
			if strings.Contains(got["inner"], `"move":"ok"`) {
				t.Errorf("the mask was moved: %v", got)
			}
			nothing(t, i)
		})
	}
}

// without starts the daemon anew with features switched off, until the test ends.
func (b *box) without(t *testing.T, features ...string) *box {
	t.Helper()
	env := b.env
	again := func() error { return errors.Join(b.end(syscall.SIGTERM), b.serve()) }
	b.env = append(b.env[:len(b.env):len(b.env)], "SBXD_TEST_WITHOUT="+strings.Join(features, ","))
	err := again()
	t.Cleanup(func() {
		b.env = env
		if err := again(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
