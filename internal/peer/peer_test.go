package peer

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestMain lets the suite's own binary be the peer: it connects and waits until
// the other side closes.
func TestMain(m *testing.M) {
	if addr := os.Getenv("PEER_DIAL"); addr != "" {
		conn, err := net.Dial("unix", addr)
		if err != nil {
			os.Exit(1)
		}
		if os.Getenv("PEER_LEAVE") == "" {
			_, _ = conn.Read(make([]byte, 1))
		}
		os.Exit(0)
	}
	testbox.Main(m)
}

func accept(t *testing.T, cmd func(addr string) *exec.Cmd) (Peer, *exec.Cmd) {
	t.Helper()
	dir := testbox.TempDir(t)
	addr := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: addr, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.Chmod(addr, 0o666); err != nil {
		t.Fatal(err)
	}
	c := cmd(addr)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = l.SetDeadline(time.Now().Add(10 * time.Second))
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("PEER_WAIT") != "" {
		_ = c.Wait()
	}
	p, err := Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if os.Getenv("PEER_WAIT") == "" {
		_ = c.Wait()
	}
	return p, c
}

func self(addr string, env ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append([]string{"PEER_DIAL=" + addr}, env...)
	return c
}

func TestPeerIsTheProcessThatConnected(t *testing.T) {
	p, c := accept(t, func(addr string) *exec.Cmd { return self(addr) })
	want := Peer{UID: os.Geteuid(), GID: os.Getegid(), Pid: c.Process.Pid, SameUserNS: true}
	if p != want {
		t.Errorf("Of = %+v, want %+v", p, want)
	}
}

func TestPeerOfAnotherUser(t *testing.T) {
	testbox.Need(t, "root")
	uid, gid := testbox.AsUser(t)
	p, _ := accept(t, func(addr string) *exec.Cmd {
		c := self(addr)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return c
	})
	if p.UID != uid || p.GID != gid || !p.SameUserNS {
		t.Errorf("Of = %+v, want uid %d in the same user namespace", p, uid)
	}
}

func TestPeerInAnotherUserNamespaceIsTold(t *testing.T) {
	testbox.Need(t, "userns")
	p, _ := accept(t, func(addr string) *exec.Cmd {
		c := self(addr)
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
		return c
	})
	if p.UID != os.Geteuid() || p.SameUserNS {
		t.Errorf("Of = %+v, want our uid and another user namespace", p)
	}
}

func TestAPeerThatIsGoneIsNotTheSame(t *testing.T) {
	t.Setenv("PEER_WAIT", "1")
	p, _ := accept(t, func(addr string) *exec.Cmd { return self(addr, "PEER_LEAVE=1") })
	if p.SameUserNS {
		t.Errorf("Of = %+v, want SameUserNS false for a peer that is gone", p)
	}
}

func TestWithoutPidfdOfThePeer(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	t.Setenv("SBXD_TEST_WITHOUT", "peer-pidfd") // has an effect in sbxdtest builds only
	p, err := of(fds[0])
	if want := (Peer{UID: os.Geteuid(), GID: os.Getegid(), Pid: os.Getpid(), SameUserNS: true}); err != nil || p != want {
		t.Errorf("of = %+v, %v, want %+v", p, err, want)
	}
}

func TestPollsTellsAnEndFromAWord(t *testing.T) {
	pair := func() (ours, theirs *net.UnixConn) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		var ends [2]*net.UnixConn
		for i, fd := range fds {
			f := os.NewFile(uintptr(fd), "end")
			c, err := net.FileConn(f)
			_ = f.Close()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			ends[i] = c.(*net.UnixConn)
		}
		return ends[0], ends[1]
	}
	silent, _ := pair()
	spoken, mouth := pair()
	if _, err := mouth.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	ended, other := pair()
	_ = other.Close()
	closed, _ := pair()
	_ = closed.Close()
	for _, c := range []struct {
		name       string
		conn       *net.UnixConn
		end, orSay bool
	}{
		{"silent", silent, false, false},
		{"spoken", spoken, false, true},
		{"ended", ended, true, true},
		{"closed by us", closed, true, true},
	} {
		if got := Polls(c.conn, unix.POLLRDHUP); got != c.end {
			t.Errorf("%s: an end is seen: %v, want %v", c.name, got, c.end)
		}
		if got := Polls(c.conn, unix.POLLIN|unix.POLLRDHUP); got != c.orSay {
			t.Errorf("%s: an end or a word is seen: %v, want %v", c.name, got, c.orSay)
		}
	}
}
