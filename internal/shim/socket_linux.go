package shim

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/session"
)

// shortPath opens the directory of a socket and names the socket through it: the
// address of a unix socket has 108 bytes (unix(7)), a path up to 4,096.
func shortPath(socket string) (*os.File, string, error) {
	dir, err := os.OpenFile(filepath.Dir(socket), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	return dir, fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)), nil
}

// listen makes a session's socket, mode 0600, owned by the session's uid.
func listen(socket string, uid, gid int) (*os.File, error) {
	dir, name, err := shortPath(socket)
	if err != nil {
		return nil, fmt.Errorf("make the session's socket: %w", err)
	}
	defer dir.Close()
	_ = os.Remove(name) // of a session that ended; a live one has another id
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		return nil, fmt.Errorf("make the session's socket: %w", err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, fmt.Errorf("close the session's socket to others: %w", err)
	}
	if os.Getuid() == 0 {
		if err := os.Lchown(name, uid, gid); err != nil {
			return nil, fmt.Errorf("give the session's socket to its user: %w", err)
		}
	}
	return l.File()
}

// cutLayers clones HOME and project without the mounts below them. Only root can: in a
// user namespace the mounts of the host are locked to each other
// (mount_namespaces(7)), and overlayfs refuses a lower directory with locked mounts.
func cutLayers(r session.Record) ([]*os.File, []layer, error) {
	if os.Getuid() != 0 {
		return nil, nil, nil
	}
	table, err := readMounts()
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	var names []layer
	for _, p := range places(r) {
		if len(below(table, p.Real)) == 0 {
			continue
		}
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
		fd, err := unix.Openat2(unix.AT_FDCWD, p.Real, &how)
		if err != nil {
			closeAll(files)
			return nil, nil, fmt.Errorf("open %s: %w", p.Real, err)
		}
		clone, err := mnt.Clone(fd, false)
		_ = unix.Close(fd)
		if err != nil {
			closeAll(files)
			return nil, nil, fmt.Errorf("cut the mounts below %s off: %w", p.Real, err)
		}
		files = append(files, os.NewFile(uintptr(clone), p.Real))
		names = append(names, layer{Path: p.Real})
	}
	return files, names, nil
}

// places are the directories that a session has views of, outer before inner; one when
// the project is HOME itself.
func places(r session.Record) []session.Place {
	if r.Project.Real == r.Home.Real {
		return []session.Place{r.Home}
	}
	return []session.Place{r.Home, r.Project}
}
