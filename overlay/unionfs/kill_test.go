package unionfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
)

// The server is killed at random points of copying, creating, renaming and removing.
// Afterwards: users get ENOTCONN and do not hang, the upper can be decoded and served
// again, every file is a whole one, and what was synced is there.
func TestServerIsKilled(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	rounds := 15
	if minutes() > 0 {
		rounds = 60 * minutes()
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	v := newView(t, stage{}, `for d in a b c; do mkdir $d; for i in 1 2 3 4 5 6 7 8; do head -c 300000 /dev/zero | tr '\0' $d >$d/$i; done; done; mkdir sync`)
	synced := 0
	for range rounds {
		done := make(chan int)
		go func(from int) { done <- syncFiles(v, from) }(synced)
		work := make(chan error)
		go func() {
			work <- sh("/", `cd $P; for r in 1 2 3 4 5; do for d in a b c; do for i in 1 2 3 4 5 6 7 8; do
				test -e $d/$i || mv $d/x$i $d/$i; echo "$r" >>$d/$i; mv $d/$i $d/x$i; mv $d/x$i $d/$i; cp $d/$i $d/n$i; mv $d/n$i $d/$i; chmod 600 $d/$i; done; rm -rf $d.new; mkdir $d.new; rmdir $d.new; mkdir $d.new; done; done`, "P="+v.P)
		}()
		time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond)
		v.check(v.server().Process.Kill())
		synced = <-done
		<-work
		v.eventually("ENOTCONN for users of a view without a server", func() bool {
			_, err := os.Stat(v.P + "/never looked at")
			return errors.Is(err, unix.ENOTCONN)
		})
		v.check(mnt.Detach(v.P))
		whole(t, v.upper)
		v.changes()
		v.mount()
		whole(t, v.P)
		for i := range synced {
			b, err := os.ReadFile(fmt.Sprintf("%s/sync/%d", v.P, i))
			if err != nil || string(b) != fmt.Sprint(i) {
				t.Fatalf("synced file %d: %q, %v", i, b, err)
			}
		}
	}
	t.Logf("%d files were synced", synced)
}

// syncFiles makes files until it fails, and returns how many were synced.
func syncFiles(v *view, from int) int {
	for i := from; ; i++ {
		f, err := os.OpenFile(fmt.Sprintf("%s/sync/%d", v.P, i), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return i
		}
		_, err = fmt.Fprint(f, i)
		if err == nil {
			err = f.Sync()
		}
		f.Close()
		if err != nil {
			return i
		}
	}
}

// whole checks that every file that a copy-up may have made is complete. A file that
// cp(1) was writing is cp's affair, so those are not looked at.
func whole(t *testing.T, root string) {
	t.Helper()
	for _, d := range []string{"a", "b", "c"} {
		for i := 1; i <= 8; i++ {
			b, err := os.ReadFile(fmt.Sprintf("%s/%s/%d", root, d, i))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				if fi, e := os.Lstat(fmt.Sprintf("%s/%s/%d", root, d, i)); e == nil && fi.Mode().IsRegular() {
					t.Fatal(err)
				}
				continue
			}
			if len(b) < 300000 || strings.Trim(string(b[:300000]), d) != "" {
				t.Fatalf("%s/%d in %s: %d bytes, not a whole file", d, i, root, len(b))
			}
		}
	}
}
