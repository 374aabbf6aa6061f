package bwrap

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// late says that it runs, waits for a word from outside, and looks at the project.
func late(res results, args []string) error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(args[0], "sub/late"))
	res.add("late file", errors.Unwrap(err))
	res["masters"] = fmt.Sprint(strings.Count(read("/proc/self/mountinfo"), " master:"))
	return nil
}

// lateHost plays the host in a mount namespace of its own, shared as systemd makes it:
// once the sandbox runs, it mounts a file system inside the project.
func lateHost(s scene) error {
	for _, flag := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|flag, ""); err != nil {
			return err
		}
	}
	uid := os.Getenv("SBXD_TEST_UID")
	arg, err := json.Marshal(s)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "stage", "shim", string(arg))
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(statusFD, "status")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{}, Pdeathsig: syscall.SIGKILL}
	for _, id := range []*uint32{&cmd.SysProcAttr.Credential.Uid, &cmd.SysProcAttr.Credential.Gid} {
		if _, err := fmt.Sscan(uid, id); err != nil {
			return err
		}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("the payload said %q: %w", line, err)
	}
	if err := mountLate(filepath.Join(s.Project, "sub")); err != nil {
		return err
	}
	if _, err := io.WriteString(stdin, "go\n"); err != nil {
		return err
	}
	if _, err := io.Copy(os.Stdout, lines); err != nil {
		return err
	}
	return cmd.Wait()
}

func mountLate(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "late"), nil, 0o644)
}

// A mount that the host makes later must stay outside: it would come in writable, and
// could cover a mask.
func TestLateHostMountsStayOutside(t *testing.T) {
	testbox.Need(t, "root", "unprivileged", "bwrap", "userns")
	run := func(t *testing.T, shared bool) results {
		uid, gid := testbox.AsUser(t)
		dir := filepath.Join(testbox.TempDir(t), "project")
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "sub"), 0o755), os.Chown(dir, uid, gid)); err != nil {
			t.Fatal(err)
		}
		arg := scene{Project: dir, Shared: shared, Guest: []string{"late", dir}}.encode(t)
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "stage", "late-host", arg)
		cmd.Env = append(os.Environ(), fmt.Sprintf("SBXD_TEST_UID=%d", uid))
		cmd.ExtraFiles = []*os.File{null}
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		res := results{}
		if err := json.Unmarshal(out, &res); err != nil {
			t.Fatalf("the payload printed %q: %v", out, err)
		}
		return res
	}
	got := run(t, false)
	expect(t, got, map[string]string{"late file": unix.ENOENT.Error(), "masters": "0"})
	// The control: without a private mount namespace it does come in.
	if got := run(t, true); got["late file"] != "ok" {
		t.Errorf("control: %v, want the late file to be visible", got)
	}
}
