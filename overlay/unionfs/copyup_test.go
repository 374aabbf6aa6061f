package unionfs

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func inode(t testing.TB, path string) (ino, nlink uint64) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino, st.Nlink
}

// A hard link pair of the lower is one file, written by one name, seen by the other,
// at once, after the kernel has forgotten both, and after a remount.
func TestLowerHardLinksStayOneFile(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir a b c; echo base >a/1; ln a/1 b/2; ln a/1 c/3`)
	v.sh(`test "$(stat -c %h a/1)" = 3; cat b/2 >/dev/null; echo more >>a/1; test "$(cat b/2 | tr '\n' ' ')" = "base more "`)
	ino, links := inode(t, v.P+"/a/1")
	if other, _ := inode(t, v.P+"/b/2"); other != ino || links != 3 {
		t.Errorf("inodes %d and %d, %d links, want the same and 3", ino, other, links)
	}
	v.remount() // c/3 was never looked at
	v.sh(`test "$(cat c/3 | tr '\n' ' ')" = "base more "; echo last >>c/3; test "$(tail -n1 b/2)" = last`)
	if again, _ := inode(t, v.P+"/a/1"); again != ino {
		t.Errorf("inode %d after a remount, was %d", again, ino)
	}
	v.sh(`rm a/1; test "$(tail -n1 b/2)" = last; test "$(stat -c %h b/2)" = 2`)
}

// Numbers of files and directories do not change by copying or moving.
func TestInodeNumbersAreConstant(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir -p d/e; echo x >d/e/f; ln -s x d/e/l; mkfifo d/e/p`)
	want := map[string]uint64{}
	paths := []string{"d", "d/e", "d/e/f", "d/e/l", "d/e/p"}
	for _, p := range paths {
		want[p], _ = inode(t, v.P+"/"+p)
	}
	check := func(when string) {
		t.Helper()
		for _, p := range paths {
			if got, _ := inode(t, v.P+"/"+p); got != want[p] {
				t.Errorf("%s: inode of %s is %d, was %d", when, p, got, want[p])
			}
		}
	}
	v.sh(`touch -h d/e/l d/e/p; echo y >>d/e/f`)
	check("after copy-up")
	v.remount()
	want["d/e/l"], _ = inode(t, v.P+"/d/e/l") // links and FIFOs carry no origin
	want["d/e/p"], _ = inode(t, v.P+"/d/e/p")
	check("after a remount")
	v.sh(`mv d/e/f g; mv g d/e/f`)
	check("after a move")
}

// A file in a read-only directory can be written to, and the directory stays as it was.
func TestCopyUpIntoAReadOnlyDirectory(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{NoCaps: true}, `mkdir -p ro/sub; echo x >ro/f; echo y >ro/sub/g; chmod 444 ro/sub/g; touch -d 2001-01-01 ro; chmod 555 ro ro/sub`)
	v.sh(`echo more >>ro/f; chmod 644 ro/sub/g; test "$(stat -c %a ro ro/sub | tr '\n' ' ')" = "555 555 "; test "$(stat -c %Y ro)" = "$(date -d 2001-01-01 +%s)"`)
	v.check(sh(v.lower, `chmod 755 ro ro/sub`))
	v.live = true
}

// A big file is copied while readers come and go, and its copier is killed.
func TestCopyUpIsKilled(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `dd if=/dev/urandom of=big bs=1M count=200 2>/dev/null; cksum big | cut -d' ' -f1 >sum`)
	for range 5 {
		v.sh(`(exec sh -c 'exec >>big') & p=$!; kill -9 $p; wait $p || true; test "$(cksum big | cut -d' ' -f1)" = "$(cat sum)"`)
	}
	v.sh(`echo end >>big; test "$(tail -c4 big)" = end`)
}

// The host writes to a file all the time that it is copied: the copy is a state that
// the file had, or there is none.
func TestCopyUpIsNeverTorn(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `for i in 1 2 3 4 5 6 7 8; do head -c 8000000 /dev/zero | tr '\0' a >f$i; done`)
	v.live = true
	stop := make(chan struct{})
	go func() {
		for c := byte('b'); ; c++ {
			b := make([]byte, 8_000_000)
			for i := range b {
				b[i] = 'a' + c%26
			}
			for _, n := range []string{"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"} {
				select {
				case <-stop:
					return
				default:
				}
				f, err := os.OpenFile(v.lower+"/"+n, os.O_WRONLY, 0)
				if err == nil {
					_, _ = f.Write(b)
					f.Close()
				}
			}
		}
	}()
	defer close(stop)
	for _, n := range []string{"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"} {
		err := os.Chmod(v.P+"/"+n, 0o600)
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		v.check(err)
	}
}

// No mark can be made from inside, and none is seen.
func TestMarksAreRefused(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir d; echo x >d/f`)
	for _, p := range []string{"d", "d/f"} {
		for _, name := range []string{"user.overlay.opaque", "user.overlay.origin", "user.overlay.whiteout", "user.overlay."} {
			if err := unix.Setxattr(v.P+"/"+p, name, []byte("y"), 0); err == nil {
				t.Errorf("%s on %s was stored", name, p)
			}
			if err := unix.Removexattr(v.P+"/"+p, name); err == nil {
				t.Errorf("%s on %s was removed", name, p)
			}
		}
	}
	v.sh(`echo y >>d/f; rm -r d; mkdir d`)
	var b [64]byte
	if n, err := unix.Listxattr(v.P+"/d", b[:]); n != 0 || err != nil {
		t.Errorf("attributes of an opaque directory: %q, %v", b[:max(n, 0)], err)
	}
	if err := unix.Mknod(v.P+"/w", unix.S_IFCHR|0o600, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("mknod of a whiteout: %v, want EPERM", err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, v.P+"/d", unix.AT_FDCWD, v.P+"/e", unix.RENAME_WHITEOUT); err == nil {
		t.Error("RENAME_WHITEOUT works")
	}
}

// An old descriptor of a directory that was removed answers.
func TestRemovedDirectoryAnswers(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir -p low/in`)
	v.sh(`mkdir new; (cd new; rmdir ../new; test "$(ls -A . | wc -l)" = 0; stat . >/dev/null; ! touch x 2>/dev/null)
	(cd low/in; rmdir ../in; stat . >/dev/null; ! mkdir x 2>/dev/null)`)
}
