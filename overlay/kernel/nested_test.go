package kernel

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
)

// inner is set in the process that stands for a session's holder: its
// namespaces are children of those in which the nested mount was made.
const inner = "SBXD_KERNEL_TEST_INNER"

// TestNestedMount is public case B006: HOME with another file system mounted in
// it. What a user cannot do (look beneath it) is reported with the mountpoint;
// a clone made outside makes it work.
func TestNestedMount(t *testing.T) {
	if dir := os.Getenv(inner); dir != "" {
		inside(t, dir)
		return
	}
	if !testbox.Unshared(t) {
		return
	}
	dir := t.TempDir()
	lower := layer(t, dir+"/lower")
	for _, n := range []string{"pins", "upper", "work", "at", "lower/mnt", "lower/beside"} {
		layer(t, dir+"/"+n)
	}
	fd, err := mnt.Tmpfs(1<<20, 16, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := mnt.Move(fd, unix.AT_FDCWD, dir+"/lower/mnt"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mnt.Detach(dir + "/lower/mnt") }()
	clone, err := mnt.Clone(int(lower.Fd()), false)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(clone), "clone")
	defer f.Close()

	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestNestedMount$", "-test.v")
	cmd.Env = append(os.Environ(), inner+"="+dir)
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func inside(t *testing.T, dir string) {
	s := spec(t, dir)
	_, err := Backend{}.Mount(s)
	var n *NestedError
	if !errors.As(err, &n) || !slices.Equal(n.Points, []string{dir + "/lower/mnt"}) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("mount over a nested mount: %v, want a *NestedError with its point", err)
	}
	if err := mnt.Move(3, unix.AT_FDCWD, dir+"/at"); err != nil {
		t.Fatal(err)
	}
	s.Lowers[0] = openPath(t, dir+"/at")
	view, err := Backend{}.Mount(overlay.Spec{Lowers: s.Lowers, Upper: s.Upper, Work: s.Work})
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	path := mnt.Name(int(view.Fd()))
	if names, err := os.ReadDir(path + "/mnt"); err != nil || len(names) != 0 {
		t.Errorf("the mountpoint in the view: %v, %v, want empty", names, err)
	}
	if err := os.WriteFile(path+"/beside/f", nil, 0o600); err != nil {
		t.Error(err)
	}
}
