package unionfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Sixteen workers do everything on few names, while the host edits the lower and
// directories lose their descriptors. Nothing hangs, nothing panics (the server
// process fails then), the lower keeps what the host gave it.
func TestStress(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	for name, st := range map[string]stage{"cached": {FDs: 200}, "passthrough": {Passthrough: true}} {
		t.Run(name, func(t *testing.T) {
			v := newView(t, st, `for d in a b c d; do mkdir -p $d/$d/x; for i in 1 2 3 4 5; do echo $d$i >$d/$i; echo $d$i >$d/$d/$i; done; done; ln a/1 b/l; ln a/1 c/l`)
			long := 3 * time.Second
			if minutes() > 0 {
				long = time.Duration(minutes()) * time.Minute
			}
			end := time.Now().Add(long)
			var wg sync.WaitGroup
			for w := range 16 {
				wg.Go(func() { stress(v.P, uint64(w), end) })
			}
			wg.Wait()
			v.sh(`find . -type f -exec cat {} + >/dev/null`)
		})
	}
}

func stress(root string, seed uint64, end time.Time) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	dirs := []string{"", "a", "b", "c", "d", "a/a", "b/b", "c/c", "a/a/x", "new"}
	path := func() string {
		return fmt.Sprintf("%s/%s/%d", root, dirs[rnd.IntN(len(dirs))], rnd.IntN(6))
	}
	for time.Now().Before(end) {
		switch p := path(); rnd.IntN(16) {
		case 0:
			_ = os.WriteFile(p, make([]byte, rnd.IntN(10000)), 0o644)
		case 1:
			_, _ = os.ReadFile(p)
		case 2:
			_ = os.Remove(p)
		case 3:
			_ = os.Rename(p, path())
		case 4:
			_ = os.Link(p, path())
		case 5:
			_ = os.Mkdir(p, 0o755)
		case 6:
			_ = unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, path(), unix.RENAME_EXCHANGE)
		case 7:
			_ = os.Chmod(p, 0o700)
		case 8:
			_, _ = os.ReadDir(root + "/" + dirs[rnd.IntN(len(dirs))])
		case 9:
			_ = os.Truncate(p, int64(rnd.IntN(5000)))
		case 10:
			_ = unix.Setxattr(p, "user.x", []byte("y"), 0)
		case 11:
			_ = os.Symlink("x", p)
		case 12:
			mapWrite(p)
		case 13:
			_ = os.RemoveAll(root + "/new")
			_ = os.MkdirAll(root+"/new", 0o755)
		case 14:
			if f, err := os.OpenFile(p, os.O_RDWR|os.O_APPEND, 0); err == nil {
				_ = os.Remove(p)
				_, _ = f.WriteString("more")
				_, _ = f.Stat()
				f.Close()
			}
		case 15:
			var st unix.Stat_t
			_ = unix.Lstat(p, &st)
		}
	}
}

func mapWrite(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() < 8 || !fi.Mode().IsRegular() {
		return
	}
	// Only what cannot be cut meanwhile may be touched, so a copy of its own is mapped.
	g, err := os.OpenFile(path+"m", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	defer g.Close()
	defer os.Remove(path + "m")
	if g.Truncate(8192) != nil {
		return
	}
	m, err := unix.Mmap(int(g.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return
	}
	m[0], m[5000] = 1, 2
	_ = unix.Munmap(m)
}

// A directory of 20,000 entries, read while it is removed; deep trees with few
// descriptors.
func TestLargeAndDeep(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{FDs: 100}, `mkdir big deep; cd big; seq -f 'l%05g' 10000 | xargs touch; cd ../deep; for i in $(seq 300); do mkdir -p $i/a/b; echo $i >$i/a/b/f; done`)
	v.sh(`cd big; seq -f 'u%05g' 10000 | xargs touch; test "$(ls | wc -l)" = 20000; test "$(ls | sort -u | wc -l)" = 20000; cd ..; rm -r big; test ! -e big`)
	v.sh(`test "$(cat deep/*/a/b/f | wc -l)" = 300; for i in $(seq 300); do echo x >>deep/$i/a/b/f; done; test "$(cat deep/*/a/b/f | wc -l)" = 600`)
}

// Two servers never share an upper.
func TestUpperIsServedOnce(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, ``)
	f, err := os.Open(v.work)
	v.check(err)
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("lock of a work directory in use: %v, want EWOULDBLOCK", err)
	}
}
