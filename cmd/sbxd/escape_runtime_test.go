package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// tryWithRun gives the calling process a /run of its own, with what a desktop and a
// version manager of shells leave there, and becomes the program of its arguments; the
// first is the uid. Its sockets go on to listen.
func tryWithRun(_ results, args []string) error {
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	err = errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("run", "/run", "tmpfs", 0, "mode=755"))
	if err != nil {
		return err
	}
	user := fmt.Sprintf("/run/user/%d", uid)
	for _, dir := range []string{"/fnm/1_2/bin", "/proj", "/tools"} {
		err = errors.Join(err, os.MkdirAll(user+dir, 0o700))
	}
	err = errors.Join(err,
		os.WriteFile(user+"/fnm/1_2/bin/cli", []byte("#!/bin/sh\necho the cli runs\n"), 0o755),
		os.WriteFile(user+"/secret", []byte(secret), 0o600), os.WriteFile("/run/secret", []byte(secret), 0o644),
		os.Symlink("fnm/1_2/bin/cli", user+"/cli"), os.Chmod("/run/user", 0o755))
	for _, path := range []string{user + "/bus", user + "/tools/sock", "/run/docker.sock"} {
		l, lerr := net.Listen("unix", path)
		if lerr != nil {
			return lerr
		}
		f, lerr := l.(*net.UnixListener).File()
		if lerr != nil {
			return lerr
		}
		_, lerr = unix.FcntlInt(f.Fd(), unix.F_SETFD, 0) // it listens for as long as the daemon lives
		err = errors.Join(err, lerr, os.Chmod(path, 0o777))
	}
	err = errors.Join(err, filepath.WalkDir(user, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, uid, uid))
	}))
	if err != nil {
		return err
	}
	return syscall.Exec(args[1], args[1:], os.Environ())
}

// TestEscapeByTheRuntimeDirectory shows a program and a project below /run/user/<uid> to
// a session: it gets these, and nothing beside or above them.
func TestEscapeByTheRuntimeDirectory(t *testing.T) {
	t.Parallel()
	testbox.Need(t, "root")
	b := served(t)
	dir, err := weapon()
	if err != nil {
		t.Fatal(err)
	}
	b.via = func(c *exec.Cmd) {
		c.Args = append([]string{"attacker", "attack", "with-run", strconv.Itoa(b.uid), c.Path}, c.Args[1:]...)
		c.Path = filepath.Join(dir, "attacker")
	}
	if err := errors.Join(b.end(syscall.SIGTERM), b.serve()); err != nil {
		t.Fatal(err)
	}
	user := fmt.Sprintf("/run/user/%d", b.uid)
	sockets := []string{"unix:" + user + "/bus", "unix:" + user + "/tools/sock", "unix:/run/docker.sock"}
	dead := map[string]string{}
	for _, s := range sockets {
		dead[s] = "ENOENT|ECONNREFUSED|EACCES"
	}

	t.Run("a program", func(t *testing.T) {
		i := b.intrude(t, "--ro", user+"/fnm/1_2", "--ro", user+"/cli", "--ro", user+"/tools")
		if out := i.sh(user + "/fnm/1_2/bin/cli; cd " + user + " && ls -A . fnm"); out != "the cli runs\n.:\ncli\nfnm\ntools\n\nfnm:\n1_2" && out != "the cli runs\n.:\nfnm\ntools\n\nfnm:\n1_2" {
			t.Errorf("inside: %s", out)
		}
		expect(t, i.try("connect", sockets...), dead)
		i.hunt()
		// What it made stays its own, and what it was shown stays in its place.
		i.sh("echo x >$XDG_RUNTIME_DIR/mine")
		i.refuses("mv " + user + "/fnm " + user + "/x")
		i.refuses("rm -rf " + user + "/fnm/1_2/bin/cli")
	})

	t.Run("a project", func(t *testing.T) {
		i := b.intrude(t, "--project", user+"/proj")
		if out := i.sh("pwd; ls -A ..; echo 1 >new"); out != user+"/proj\nproj" {
			t.Errorf("inside: %s", out)
		}
		expect(t, i.try("connect", sockets...), dead)
		i.hunt()
		i.refuses("mv ../proj ../x")
	})

	t.Run("not the directory itself", func(t *testing.T) {
		for _, path := range []string{user, user + "/", "/run", "/run/user", "/var/run" + strings.TrimPrefix(user, "/run"), user + "/bus"} {
			b.refused(t, 7, "", "start", "--project", b.project, "--ro", path)
			b.refused(t, 7, "", "start", "--project", b.project, "--carve", path)
		}
	})
}
