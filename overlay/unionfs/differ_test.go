package unionfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// minutes is how long the random tests run, SBXD_UNIONFS_MINUTES; 0 is seconds.
func minutes() int {
	n, _ := strconv.Atoi(os.Getenv("SBXD_UNIONFS_MINUTES"))
	return n
}

// TestDifferential does the same random operations on a plain directory and on a
// view, by two processes in turn. Each must have the same outcome and the trees be
// the same, at once and after a remount; the lower must not change, and base +
// changes must be the view.
func TestDifferential(t *testing.T) {
	differential(t, nil)
}

// TestDifferentialWithMasks has masked names among the others. What names one must
// fail; everything else must be as on a directory that has none of them.
func TestDifferentialWithMasks(t *testing.T) {
	differential(t, []string{"**/m", "a/*/n"})
}

func differential(t *testing.T, patterns []string) {
	if !inNamespaces(t) {
		return
	}
	// The same sequences each time, unless there is time for others.
	seed, count, long := uint64(1), 40, time.Duration(0)
	if minutes() > 0 {
		seed, long = uint64(time.Now().UnixNano()), time.Duration(minutes())*time.Minute
	}
	if s := os.Getenv("SBXD_UNIONFS_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
		count, long = 1, 0
	}
	total := 0
	for end := time.Now().Add(long); !t.Failed() && (count > 0 || time.Now().Before(end)); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { total += sequence(t, seed, patterns) })
		count--
	}
	t.Logf("%d operations", total)
}

// sequence is one base and some operations on it.
func sequence(t *testing.T, seed uint64, patterns []string) int {
	rnd := rand.New(rand.NewPCG(seed, 7))
	masks, err := compile(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	st := stage{Masks: patterns, FDs: []uint64{0, 80}[rnd.IntN(2)], NoCaps: rnd.IntN(2) == 0, Passthrough: rnd.IntN(3) == 0}
	v := newView(t, st, ``)
	v.masked = patterns != nil
	v.unmount()
	plain := v.dir + "/plain"
	v.check(os.Mkdir(plain, 0o755))
	d := &differ{t: t, rnd: rnd, masks: masks, plain: plain, view: v}
	d.fill()
	v.before = v.tree(v.lower)
	v.mount()
	n := 30 + rnd.IntN(150)
	for i := range n {
		d.one(i)
		if t.Failed() {
			t.Logf("operations:\n%s", strings.Join(d.log, "\n"))
			return i
		}
		if rnd.IntN(40) == 0 {
			d.closeAll()
			v.remount()
			d.remounted = true
		}
	}
	d.closeAll()
	if diff := v.tree(plain).Diff(v.tree(v.P)); diff != "" {
		t.Errorf("the view is not the plain directory:\n%s\noperations:\n%s", diff, strings.Join(d.log, "\n"))
	}
	return n
}

// differ is one run of operations.
type differ struct {
	t     *testing.T
	rnd   *rand.Rand
	masks *Masks
	plain string
	view  *view
	log   []string

	remounted bool
	open      [4][2]*os.File // on the plain directory, on the view
}

var differNames = []string{"a", "b", "c", "m", "n", ".wh.a"}

func (d *differ) path() string {
	names := make([]string, 1+d.rnd.IntN(3))
	for i := range names {
		names[i] = differNames[d.rnd.IntN(len(differNames))]
	}
	return strings.Join(names, "/")
}

// fill makes the lower, and the plain directory without what is masked.
func (d *differ) fill() {
	for range 5 + d.rnd.IntN(25) {
		p, q := d.path(), d.path()
		kind, mode := d.rnd.IntN(8), d.rnd.IntN(3)
		for _, root := range []string{d.view.lower, d.plain} {
			_ = os.MkdirAll(root+"/"+d.visible(root, dirName(p)), 0o755)
			if root == d.plain && (hidesPath(d.masks, p) || kind == 6 && hidesPath(d.masks, q)) {
				continue
			}
			switch kind {
			case 0, 1, 2:
				if write(root+"/"+p, os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, q+p) == nil {
					_ = os.Chmod(root+"/"+p, []os.FileMode{0o644, 0o600, 0o755}[mode])
				}
			case 3, 4:
				_ = os.MkdirAll(root+"/"+p, 0o755)
			case 5:
				_ = os.Symlink(d.target(q), root+"/"+p)
			case 6:
				if hidesPath(d.masks, p) || hidesPath(d.masks, q) { // masked by all names
					continue
				}
				_ = os.Link(root+"/"+q, root+"/"+p)
			case 7:
				_ = unix.Lsetxattr(root+"/"+p, "user.k", []byte(q), 0)
			}
		}
	}
}

// target is what a link points to: with masks nothing, since where it leads may be
// masked, which is not seen in its own path.
func (d *differ) target(q string) string {
	if len(d.masks.patterns) > 0 {
		return "nowhere"
	}
	return q
}

// visible is the part of a path that is not masked; of the lower all of it.
func (d *differ) visible(root, p string) string {
	for root == d.plain && hidesPath(d.masks, p) {
		p = dirName(p)
	}
	return p
}

func dirName(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return "."
}

// one does one operation on both.
func (d *differ) one(i int) {
	p, q, what, n := d.path(), d.path(), d.rnd.IntN(30), d.rnd.IntN(1<<16)
	slot := d.rnd.IntN(len(d.open))
	d.log = append(d.log, fmt.Sprintf("%d: %d %s %s %d slot %d", i, what, p, q, n, slot))
	vout, verr := d.do(1, d.view.P, what, p, q, n, slot)
	if hidesPath(d.masks, p) && what < 24 || twoNames(what) && hidesPath(d.masks, q) {
		if verr == nil {
			d.t.Errorf("operation %d on a masked name works: %q", i, vout)
		}
		return
	}
	if errors.Is(verr, unix.EXDEV) && twoNames(what) {
		return
	}
	if errors.Is(verr, unix.ENOTEMPTY) && d.view.masked { // what is hidden stays
		return
	}
	pout, perr := d.do(0, d.plain, what, p, q, n, slot)
	if !sameErr(verr, perr) || vout != pout {
		d.t.Errorf("operation %d: %q, %v; on a plain directory %q, %v", i, vout, verr, pout, perr)
	}
}

func twoNames(what int) bool { return what >= 6 && what <= 10 }

func sameErr(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	var x, y unix.Errno
	if errors.As(a, &x) && errors.As(b, &y) {
		return x == y
	}
	return true
}
