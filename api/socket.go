package api

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// SystemSocket is where the system's daemon listens.
const SystemSocket = "/run/sbxd/sbxd.sock"

var errPermission = fs.ErrPermission

// RuntimeDir returns where a daemon of uid keeps its sockets: /run/sbxd for root, else
// $XDG_RUNTIME_DIR/sbxd, else run below the state root.
func RuntimeDir(uid int, getenv func(string) string, stateRoot string) string {
	if uid == 0 {
		return filepath.Dir(SystemSocket)
	}
	if d := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "sbxd")
	}
	return filepath.Join(stateRoot, "run")
}

// Sockets returns where a client looks for a daemon, in order: SBXD_SOCKET alone when
// it is set, else the user's own, else the system's. stateRoot is the user's.
func Sockets(uid int, getenv func(string) string, stateRoot string) []string {
	if s := getenv("SBXD_SOCKET"); s != "" {
		return []string{s}
	}
	own := filepath.Join(RuntimeDir(uid, getenv, stateRoot), "sbxd.sock")
	if own == SystemSocket {
		return []string{own}
	}
	return []string{own, SystemSocket}
}

// strangerError is a listener that belongs to neither the caller nor root: somebody
// made a socket where ours was to be.
type strangerError struct {
	socket string
	uid    int
}

func (e *strangerError) Error() string {
	return fmt.Sprintf("the daemon on %s belongs to uid %d, not to you or root", e.socket, e.uid)
}

func dialChecked(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := dialUnix(ctx, socket)
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(conn)
	if err == nil && !trusts(os.Getuid(), uid) {
		err = &strangerError{socket: socket, uid: uid}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// trusts reports whether uid me talks to a daemon of uid listener: its own or root's.
// Root talks to the one it names.
func trusts(me, listener int) bool { return listener == 0 || listener == me || me == 0 }

func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// maxSunPath is the longest path that connect(2) takes (unix(7): 108 with its NUL).
const maxSunPath = 107

// dialUnix connects to a socket whose path may be longer than connect(2) takes: its
// directory is opened and the socket reached through /proc/self/fd.
func dialUnix(ctx context.Context, socket string) (*net.UnixConn, error) {
	var d net.Dialer
	if len(socket) <= maxSunPath {
		conn, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		return conn.(*net.UnixConn), nil
	}
	fd, err := unix.Open(filepath.Dir(socket), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("open", err)}
	}
	defer syscall.Close(fd)
	short := "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(socket)
	conn, err := d.DialContext(ctx, "unix", short)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
