package mnt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) { testbox.Main(m) }

func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := OpenTree(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestTmpfsIsBoundedAndVanishesWithItsDescriptor(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := t.TempDir()
	fd, err := Tmpfs(64<<10, 16, 0o1777)
	if err != nil {
		t.Fatal(err)
	}
	if err := Move(fd, open(t, dir), ""); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if fi, err := os.Lstat(dir); err != nil || fi.Mode().Perm() != 0o777 || fi.Mode()&os.ModeSticky == 0 {
		t.Errorf("root of the tmpfs: %v, %v, want mode 1777", fi.Mode(), err)
	}
	if err := os.WriteFile(dir+"/big", make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write 1 MiB into 64 KiB: %v, want ENOSPC", err)
	}
	if err := Detach(dir); err != nil {
		t.Error(err)
	}
	fd, err = Tmpfs(4096, 2, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if got := testbox.MountsBelow(dir); len(got) != 0 {
		t.Errorf("mounts left: %q", got)
	}
}

func TestMoveCoversALinkItself(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	dir := t.TempDir()
	for _, n := range []string{"secret", "empty"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("secret", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	c, err := Clone(open(t, dir+"/empty"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := SetAttr(c, unix.MOUNT_ATTR_RDONLY, 0, false); err != nil {
		t.Fatal(err)
	}
	if err := Move(c, open(t, dir), "link"); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(c)
	if b, err := os.ReadFile(dir + "/link"); err != nil || string(b) != "empty" {
		t.Errorf("the link reads %q, %v, want the cover", b, err)
	}
	if b, err := os.ReadFile(dir + "/secret"); err != nil || string(b) != "secret" {
		t.Errorf("the target reads %q, %v, want it untouched", b, err)
	}
	if err := os.WriteFile(dir+"/link", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("write through the cover: %v, want EROFS", err)
	}
	if err := Detach(dir + "/link"); err != nil {
		t.Error(err)
	}
}

func TestRecursiveAttributesReachTheMountsBelow(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	if err := MakePrivate(); err != nil {
		t.Fatal(err)
	}
	src, dst := t.TempDir(), t.TempDir()
	if err := os.Mkdir(src+"/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := Tmpfs(4096, 4, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := Move(fd, open(t, src), "sub"); err != nil {
		t.Fatal(err)
	}
	c, err := Clone(open(t, src), true)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	if err := SetAttr(c, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID, 0, true); err != nil {
		t.Fatal(err)
	}
	if err := SetPropagation(c, unix.MS_PRIVATE, true); err != nil {
		t.Fatal(err)
	}
	if err := Move(c, open(t, dst), ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dst+"/sub/x", 0o700); !errors.Is(err, unix.EROFS) {
		t.Errorf("mkdir below the read-only copy: %v, want EROFS", err)
	}
	if err := os.Mkdir(src+"/sub/x", 0o700); err != nil {
		t.Errorf("mkdir in the original: %v", err)
	}
	_, _ = Detach(dst), Detach(src+"/sub")
}

func TestErrorsCarryTheKernelsWords(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	c, err := Open("tmpfs")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Set("size", "nonsense")
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, unix.EINVAL) || !strings.Contains(e.Detail, "size") {
		t.Errorf("got %v, want EINVAL with the kernel's message about size", err)
	}
	if err := c.SetFlag("no_such_flag"); err == nil {
		t.Error("an unknown flag was taken")
	}
	if _, err := Open("no-such-fs"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("open an unknown file system: %v, want ENODEV", err)
	}
}
