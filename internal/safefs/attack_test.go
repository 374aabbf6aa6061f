package safefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// rounds is how often each race is run.
const rounds = 10_000

// swap exchanges a and b in dir until stop is closed.
func swap(t *testing.T, dir, a, b string) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir+"/"+a, unix.AT_FDCWD, dir+"/"+b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	return sync.OnceFunc(func() { close(quit); <-done })
}

func TestSwappedLinkNeverLeadsOut(t *testing.T) {
	d, path := open(t)
	outside := t.TempDir()
	write(t, outside+"/f", "secret")
	must(t, os.Mkdir(path+"/dir", 0o700))
	write(t, path+"/dir/f", "inside")
	must(t, os.Symlink(outside, path+"/link"))
	stop := swap(t, path, "dir", "link")
	defer stop()
	read, refused := 0, 0
	for range rounds {
		f, err := d.Open("dir/f", unix.O_RDWR, 0)
		if err != nil {
			refused++
			continue
		}
		b, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil || string(b) != "inside" {
			t.Fatalf("read %q, %v through a swapped link", b, err)
		}
		read++
	}
	if read == 0 || refused == 0 {
		t.Errorf("read %d, refused %d: the race was not run", read, refused)
	}
}

func TestRemoveAllNeverFollowsASwappedLink(t *testing.T) {
	d, path := open(t)
	outside := t.TempDir()
	must(t, os.MkdirAll(outside+"/sub", 0o700))
	write(t, outside+"/sub/f", "precious")
	must(t, os.MkdirAll(path+"/t/sub", 0o700))
	must(t, os.Symlink(outside, path+"/link"))
	stop := swap(t, path, "t", "link")
	defer stop()
	for i := range rounds {
		for _, n := range []string{"t/sub", "t/sub/f"} {
			_ = d.Mkdir(n, 0o700)
		}
		_ = d.RemoveAll("t/sub")
		if _, err := os.Lstat(outside + "/sub/f"); err != nil {
			t.Fatalf("round %d: the file outside is gone: %v", i, err)
		}
	}
	stop()

	// The top itself swapped: at most the link is removed, never what it names.
	for range 500 {
		_ = os.MkdirAll(path+"/u/sub", 0o700)
		_ = os.Symlink(outside, path+"/v")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = unix.Renameat2(unix.AT_FDCWD, path+"/u", unix.AT_FDCWD, path+"/v", unix.RENAME_EXCHANGE)
		}()
		_ = d.RemoveAll("u")
		<-done
		_ = d.RemoveAll("v")
	}
	if b, err := os.ReadFile(outside + "/sub/f"); err != nil || string(b) != "precious" {
		t.Errorf("the file outside reads %q, %v", b, err)
	}
}

func TestMountsAreNotEnteredNorRemoved(t *testing.T) {
	if !testbox.Unshared(t) {
		return
	}
	d, path := open(t)
	outside := t.TempDir()
	write(t, outside+"/f", "precious")
	must(t, os.MkdirAll(path+"/t/mnt", 0o700))
	write(t, path+"/t/file", "")
	write(t, path+"/t/other", "")
	must(t, unix.Mount(outside, path+"/t/mnt", "", unix.MS_BIND, ""))
	must(t, unix.Mount(outside+"/f", path+"/t/file", "", unix.MS_BIND, ""))
	defer func() {
		_ = unix.Unmount(path+"/t/mnt", unix.MNT_DETACH)
		_ = unix.Unmount(path+"/t/file", unix.MNT_DETACH)
	}()
	err := d.RemoveAll("t")
	wantErr(t, "remove a tree with mounts", err, ErrMount)
	for _, p := range []string{"/t/mnt", "/t/file"} {
		if !strings.Contains(err.Error(), p[1:]) {
			t.Errorf("the error %q does not name %s", err, p)
		}
	}
	if b, err := os.ReadFile(outside + "/f"); err != nil || string(b) != "precious" {
		t.Errorf("the mounted file reads %q, %v", b, err)
	}
	if _, err := os.Lstat(path + "/t/other"); err == nil {
		t.Error("one mount stopped the removal of the rest")
	}
	st, err := d.Lstat("t/mnt")
	if err != nil || !st.MountRoot {
		t.Errorf("Lstat of a mountpoint = %+v, %v, want MountRoot", st, err)
	}
	if _, err := d.ReadRegular("t/mnt/f", 100); err != nil {
		t.Errorf("without OneMount: %v", err)
	}
	_, err = d.OneMount().ReadRegular("t/mnt/f", 100)
	wantErr(t, "with OneMount", err, unix.EXDEV)
}

func TestRemoveAllOfDirectoriesWithoutRights(t *testing.T) {
	if !testbox.Unprivileged(t) {
		return
	}
	d, path := open(t)
	must(t, os.MkdirAll(path+"/t/none/below", 0o700))
	must(t, os.MkdirAll(path+"/t/readonly", 0o700))
	write(t, path+"/t/none/below/f", "")
	write(t, path+"/t/readonly/f", "")
	must(t, os.Chmod(path+"/t/none/below", 0))
	must(t, os.Chmod(path+"/t/none", 0))
	must(t, os.Chmod(path+"/t/readonly", 0o500))
	must(t, d.RemoveAll("t"))
	if _, err := os.Lstat(path + "/t"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
}

func TestRemoveAllOfADeepTree(t *testing.T) {
	d, path := open(t)
	const depth = 5000
	must(t, d.Mkdir("t", 0o700))
	// From the bottom up: each level is a rename into a new parent.
	must(t, d.Mkdir("cur", 0o700))
	write(t, path+"/cur/leaf", "")
	for range depth {
		must(t, d.Mkdir("next", 0o700))
		must(t, d.Rename("cur", d, "next/x"))
		must(t, d.Rename("next", d, "cur"))
	}
	must(t, d.Rename("cur", d, "t/cur"))
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: old.Max}))
	err := d.RemoveAll("t")
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, err)
	if left, err := d.ReadDir(""); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestRemoveAllWhileSomebodyFills(t *testing.T) {
	d, path := open(t)
	must(t, os.Mkdir(path+"/t", 0o700))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			default:
				_ = os.WriteFile(fmt.Sprintf("%s/t/%d", path, i), nil, 0o600)
			}
		}
	}()
	err := d.RemoveAll("t") // it ends: gone, or an error after a bounded number of passes
	close(quit)
	<-done
	if err != nil && !errors.Is(err, ErrUnstable) && !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("RemoveAll: %v", err)
	}
	must(t, d.RemoveAll("t"))
}
