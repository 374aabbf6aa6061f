package backing

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) {
	if os.Getenv("SBXD_STAGE") == Stage {
		os.Exit(Main(os.Args[2:]))
	}
	testbox.Main(m)
}

// started starts the process of root for the test's user, whose files are in dir.
func started(t *testing.T) (c *Client, p *os.Process, dir string, uid, gid int) {
	t.Helper()
	testbox.Need(t, "root", "fuse")
	uid, gid = testbox.AsUser(t)
	dir = testbox.TempDir(t)
	state, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	socket, p, err := Start(uid, gid, state)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = NewClient(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = socket.Close()
		if st, err := p.Wait(); err != nil || st.ExitCode() > 0 {
			t.Errorf("it ended with %v, %v", st, err)
		}
	})
	return c, p, dir, uid, gid
}

// fuse is an open device that no file system is mounted with.
func fuse(t *testing.T) *os.File {
	t.Helper()
	return open(t, "/dev/fuse", os.O_RDWR)
}

func open(t *testing.T, name string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Everything that would give the user more than he has is refused, before the kernel is
// asked.
func TestNobodyGetsMoreThanHeHas(t *testing.T) {
	c, _, dir, uid, gid := started(t)
	file := func(name string, owner int) string {
		if err := errors.Join(os.WriteFile(dir+"/"+name, []byte("x"), 0o666), os.Chown(dir+"/"+name, owner, gid)); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	own := file("own", uid)
	roots := file("roots", 0)
	shm, err := os.CreateTemp("/dev/shm", "sbxt-backing-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(shm.Name())
	defer shm.Close()
	if err := shm.Chown(uid, gid); err != nil {
		t.Fatal(err)
	}
	dev, err := c.For(fuse(t))
	if err != nil {
		t.Fatal(err)
	}
	null, err := c.For(open(t, os.DevNull, os.O_RDWR))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name string
		dev  Device
		file *os.File
		want error
	}{
		{"a file that is open for reading", dev, open(t, own, os.O_RDONLY), unix.EACCES},
		{"for writing", dev, open(t, own, os.O_WRONLY), unix.EACCES},
		{"for appending", dev, open(t, own, os.O_RDWR|os.O_APPEND), unix.EACCES},
		{"for its path", dev, open(t, own, unix.O_PATH), unix.EACCES},
		{"a file of somebody else", dev, open(t, roots, os.O_RDWR), unix.EPERM},
		{"a file of another file system", dev, shm, unix.EXDEV},
		{"a directory", dev, open(t, dir, os.O_RDONLY), unix.EACCES},
		{"a device", dev, open(t, os.DevNull, os.O_RDWR), unix.EINVAL},
		{"another device in the place of /dev/fuse", null, open(t, own, os.O_RDWR), unix.ENODEV},
	} {
		if id, err := k.dev.Register(int(k.file.Fd())); !errors.Is(err, k.want) {
			t.Errorf("%s: %d, %v, want %v", k.name, id, err, k.want)
		}
	}
	if err := null.Unregister(1); err != nil { // which tells nobody that it is of another device
		t.Error(err)
	}
	// What is right reaches the kernel, which knows of no mount of this device.
	if _, err := dev.Register(int(open(t, own, os.O_RDWR).Fd())); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
		t.Errorf("the user's own file: %v", err)
	}
	// Packets that no client of ours sends.
	for name, send := range map[string]struct {
		p   []byte
		fds []int
	}{
		"short": {[]byte{1}, nil}, "long": {make([]byte, 64), nil}, "of no kind": {pack(9, 9), nil},
		"without descriptors": {pack(opRegister, 0), nil},
		"with too many":       {pack(opRegister, 0), []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		if err := unix.Sendmsg(int(c.socket.Fd()), send.p, unix.UnixRights(send.fds...), nil, 0); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, packet)
		if n, _, err := unix.Recvfrom(int(c.socket.Fd()), answer, 0); err != nil || n != packet {
			t.Fatalf("%s: %d bytes, %v", name, n, err)
		}
		if _, errno := unpack(answer); errno != int32(unix.EINVAL) {
			t.Errorf("%s: error %d", name, errno)
		}
	}
}

// The process keeps one capability, the user's ids where files are concerned, and no
// descriptor of anybody.
func TestTheProcessIsReduced(t *testing.T) {
	c, p, dir, uid, gid := started(t)
	dev, err := c.For(fuse(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dev.Register(int(open(t, dir, os.O_RDONLY).Fd())); !errors.Is(err, unix.EACCES) {
		t.Fatal(err) // and it has begun
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
	if err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("%016x", 1<<unix.CAP_SYS_ADMIN)
	for _, want := range []string{
		"CapEff:\t" + one, "CapPrm:\t" + one, "CapAmb:\t" + strings.Repeat("0", 16), "NoNewPrivs:\t1",
		"Uid:\t0\t0\t0\t" + strconv.Itoa(uid), "Gid:\t0\t0\t0\t" + strconv.Itoa(gid),
	} {
		if !strings.Contains(string(b), want+"\n") {
			t.Errorf("%q is not in\n%s", want, b)
		}
	}
	for name := range strings.Lines(string(b)) {
		if groups, ok := strings.CutPrefix(name, "Groups:"); ok && strings.TrimSpace(groups) != "" {
			t.Errorf("groups %q", groups)
		}
	}
	time.Sleep(10 * time.Millisecond) // descriptors are closed after the answer
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", p.Pid, fd.Name()))
		if name == "/dev/fuse" || strings.HasPrefix(name, dir) {
			t.Errorf("descriptor %s is %s", fd.Name(), name)
		}
	}
}

// TestSignalsDoNotEndTheClient: a system call on a socket with a bound of time is not begun
// anew after a signal (signal(7)), and the Go runtime sends its threads many.
func TestSignalsDoNotEndTheClient(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	c, err := NewClient(ours)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // answers late
		p := make([]byte, packet)
		for {
			if n, _ := theirs.Read(p); n != packet {
				return
			}
			time.Sleep(20 * time.Millisecond)
			_, _ = theirs.Write(pack(7, 0))
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, over := unix.Gettid(), make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			}
		}
	}()
	for range 5 {
		if n, err := c.ask(opRegister, 0); n != 7 || err != nil {
			t.Fatalf("answered %d, %v", n, err)
		}
	}
}

func TestAClientWithoutItsProcessGivesUp(t *testing.T) {
	c, p, dir, _, _ := started(t)
	dev, err := c.For(fuse(t))
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, dir, os.O_RDONLY)
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := dev.Register(int(f.Fd())); !errors.Is(err, errLost) {
			t.Errorf("after its end: %v", err)
		}
	}
}
