package landlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// newUser describes a process in user and mount namespaces of its own in which it is
// root.
func newUser() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

// mountsInNestedNamespace is the way of an attacker: first restricted, then root in a
// user namespace below.
func mountsInNestedNamespace(res results) error {
	if err := restrictChild(); err != nil {
		return err
	}
	return runNested(res)
}

func runNested(res results) error {
	cmd := exec.Command("/proc/self/exe", "-")
	cmd.Env = append(os.Environ(), childEnv+"=attack")
	cmd.SysProcAttr = newUser()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the attacker: %w", err)
	}
	return json.Unmarshal(out, &res)
}

// attackMounts tries every way to change the mounts. /mnt, /srv and /home serve as
// mountpoints that every system has; the namespace is the attacker's own, so the host
// sees nothing.
func attackMounts(res results) error {
	_ = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") // the control must not propagate
	res.add("tmpfs", unix.Mount("tmpfs", "/mnt", "tmpfs", 0, ""))
	res.add("bind", unix.Mount("/etc", "/srv", "", unix.MS_BIND|unix.MS_REC, ""))
	res.add("remount", unix.Mount("", "/srv", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, ""))
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE|unix.OPEN_TREE_CLOEXEC)
	res.add("open_tree", err)
	res.add("move_mount", unix.MoveMount(tree, "", unix.AT_FDCWD, "/home", unix.MOVE_MOUNT_F_EMPTY_PATH))
	res.add("fsmount", newTmpfs("/home"))
	if err := unix.Chdir("/mnt"); err != nil {
		return err
	}
	res.add("pivot_root", unix.PivotRoot(".", "."))
	return nil
}

func newTmpfs(at string) error {
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return err
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// useFiles does what builds and version control do, below the directory of its first
// argument.
func useFiles(res results) error {
	if err := restrictChild(); err != nil {
		return err
	}
	dir := os.Args[1]
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.MkdirAll(at("a/sub"), 0o700), os.Mkdir(at("b"), 0o700), os.WriteFile(at("a/f"), []byte("123"), 0o600)); err != nil {
		return err
	}
	res.add("rename", os.Rename(at("a/f"), at("b/f")))
	res.add("rename dir", os.Rename(at("a/sub"), at("b/sub")))
	res.add("link", os.Link(at("b/f"), at("a/hard")))
	res.add("truncate", os.Truncate(at("b/f"), 1))
	res.add("fifo", unix.Mkfifo(at("fifo"), 0o600))
	l, err := net.Listen("unix", at("sock"))
	if err == nil {
		l.Close()
	}
	res.add("socket", err)
	res.add("symlink", os.Symlink("b/f", at("sym")))
	res.add("remove", os.RemoveAll(at("b")))
	res.add("exec", exec.Command("true").Run())
	fd, err := unix.MemfdCreate("m", 0)
	if err == nil { // reopened by name: not beneath "/", and yet allowed
		_, err = os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	res.add("memfd", err)
	name := fmt.Sprintf("@sbxd-landlock-own-%d", os.Getpid())
	l, err = net.Listen("unix", name)
	if err == nil {
		defer l.Close()
		err = dial(name)
	}
	res.add("own abstract", err)
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		return err
	}
	res.add("signal child", sleeper.Process.Kill())
	_ = sleeper.Wait()
	return nil
}

func dial(addr string) error {
	c, err := net.Dial("unix", addr)
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return errno
		}
		return err
	}
	return c.Close()
}

func reachOutside(res results) error {
	if err := restrictChild(); err != nil {
		return err
	}
	res.add("abstract", dial(os.Args[1]))
	res.add("path", dial(os.Args[2]))
	res.add("signal", unix.Kill(os.Getppid(), 0))
	return nil
}

func restrictAgain(res results) error {
	if err := restrictChild(); err != nil {
		return err
	}
	dir := os.Args[1]
	res.add("again", apply(ruleset{fs: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_REFER, size: sizeFS}, dir))
	_, err := os.ReadFile(filepath.Join(dir, "f"))
	res.add("inside", err)
	_, err = os.ReadFile("/etc/passwd")
	res.add("outside", errors.Unwrap(err))
	return nil
}

// restrictThenExec is what a multi-threaded program does: restrict one thread, become
// oneself again on it, and be restricted on every thread.
func restrictThenExec(res results) error {
	if len(os.Args) > 1 && os.Args[1] == "second" {
		return offThread(func() error { return runNested(res) })
	}
	if err := restrictChild(); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{"self", "second"}, os.Environ())
}

// offThread runs f on another OS thread than the caller's, which is locked.
func offThread(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}
