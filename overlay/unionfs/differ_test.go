package unionfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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

// do does one operation below root; side is 0 for the plain directory.
func (d *differ) do(side int, root string, what int, p, q string, n, slot int) (string, error) {
	a, b := root+"/"+p, root+"/"+q
	text := strings.Repeat(q+"-", n%400)
	switch what {
	case 0, 1:
		return "", write(a, os.O_CREATE|os.O_TRUNC, text)
	case 2:
		return "", write(a, os.O_APPEND, text)
	case 3:
		return "", unix.Mkdir(a, uint32([]int{0o755, 0o700, 0o1777}[n%3]))
	case 4:
		return "", unix.Unlink(a)
	case 5:
		return "", unix.Rmdir(a)
	case 6, 7:
		return "", unix.Rename(a, b)
	case 8:
		return "", unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	case 9:
		return "", unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE)
	case 10:
		return "", unix.Link(a, b)
	case 11:
		return "", unix.Symlink(d.target(q), a)
	case 12:
		return "", unix.Truncate(a, int64(n%5000))
	case 13:
		return "", unix.Lsetxattr(a, "user.k"+strconv.Itoa(n%2), []byte(q), 0)
	case 14:
		return "", unix.Lremovexattr(a, "user.k0")
	case 15:
		return listing1(a)
	case 16, 17:
		return d.stat(a)
	case 18:
		return "", unix.UtimesNanoAt(unix.AT_FDCWD, a, []unix.Timespec{{Sec: 1}, {Sec: int64(n)}}, unix.AT_SYMLINK_NOFOLLOW)
	case 19:
		return "", chmod1(a, n)
	case 20:
		return read1(a)
	case 21: // another process
		out, err := exec.Command("/bin/cat", a).Output()
		if err != nil {
			return "", errors.New("cat")
		}
		return string(out), nil
	case 22:
		return "", map1(a)
	case 23:
		return "", d.openSlot(side, slot, a, n)
	default:
		return d.useSlot(side, slot, what, n, text)
	}
}

func write(path string, flags int, text string) error {
	fd, err := unix.Open(path, flags|unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// links is the number of names, 0 after a remount: which names of a file of the lower
// were removed is then not known any more, and they are counted.
func (d *differ) links(st *unix.Stat_t) uint64 {
	if d.remounted {
		return 0
	}
	return st.Nlink
}

func (d *differ) stat(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Sprintf("%o", st.Mode), nil
	}
	return fmt.Sprintf("%o %d %d", st.Mode, st.Size, d.links(&st)), nil
}

func listing1(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	unix.Close(fd)
	list, err := os.ReadDir(path)
	out := ""
	for _, e := range list {
		out += fmt.Sprintf("%q %s ", e.Name(), e.Type())
	}
	return out, err
}

func read1(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b := make([]byte, 8192)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}

// chmod1 sets no set-id bits: FUSE takes them away when a process writes that has
// CAP_FSETID in a user namespace alone (fuse_file_write_iter, fs/fuse/file.c), as this
// one.
func chmod1(path string, n int) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	mode := uint32([]int{0o644, 0o700, 0o1755, 0o444, 0o711}[n%5])
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= 0o700
	}
	return unix.Chmod(path, mode)
}

func map1(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	m, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m[len(m)/2] = '#'
	return unix.Munmap(m)
}

// openSlot opens a file that later operations use, whatever becomes of its name.
func (d *differ) openSlot(side, slot int, path string, n int) error {
	if f := d.open[slot][side]; f != nil {
		f.Close()
		d.open[slot][side] = nil
	}
	flags := []int{unix.O_RDONLY, unix.O_RDWR, unix.O_RDWR | unix.O_APPEND, unix.O_RDWR | unix.O_CREAT}[n%4]
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	d.open[slot][side] = os.NewFile(uintptr(fd), "slot")
	return nil
}

func (d *differ) useSlot(side, slot, what, n int, text string) (string, error) {
	f := d.open[slot][side]
	if f == nil || d.open[slot][1] == nil {
		return "", nil
	}
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", err
	}
	switch what {
	case 24, 25:
		b := make([]byte, 8192)
		n, err := unix.Pread(fd, b, int64(n%100))
		return fmt.Sprintf("%d %d %o %q", st.Size, d.links(&st), st.Mode, b[:max(n, 0)]), err
	case 26:
		_, err := unix.Pwrite(fd, []byte(text), int64(n%3000))
		return "", err
	case 27:
		return "", unix.Ftruncate(fd, int64(n%6000))
	case 28:
		return "", unix.Fchmod(fd, uint32([]int{0o600, 0o644}[n%2]))
	}
	off, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	if off == st.Size {
		return "end", err
	}
	return "hole", err
}

func (d *differ) closeAll() {
	for i := range d.open {
		for side := range d.open[i] {
			if f := d.open[i][side]; f != nil {
				f.Close()
				d.open[i][side] = nil
			}
		}
	}
}
