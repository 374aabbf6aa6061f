package guest

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/session"
)

// defaultPath is where a command without a PATH is looked for.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// refusal is why a command never ran.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

var errStopping = refuse(session.CodeOurs, "the session is stopping")

// openDir opens the directory that a command starts in. A path longer than the kernel
// takes at once (PATH_MAX) is walked in pieces.
func openDir(path string) (int, error) {
	if path == "" {
		path = "."
	}
	dir := unix.AT_FDCWD
	for {
		piece, rest := split(path)
		fd, err := unix.Openat(dir, piece, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if dir != unix.AT_FDCWD {
			_ = unix.Close(dir)
		}
		if err != nil {
			return -1, err
		}
		if rest == "" {
			return enter(fd)
		}
		dir, path = fd, rest
	}
}

// enter checks that a process may make fd its working directory.
func enter(fd int) (int, error) {
	if err := unix.Faccessat(fd, ".", unix.X_OK, 0); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// split cuts a path at the last slash that leaves a first piece the kernel takes. The
// rest is relative to it.
func split(path string) (piece, rest string) {
	if len(path) < unix.PathMax {
		return path, ""
	}
	i := strings.LastIndexByte(path[:unix.PathMax-1], '/')
	if i < 0 {
		return path, "" // one name that long: the kernel says so
	}
	return path[:i+1], strings.TrimLeft(path[i+1:], "/")
}

// find returns the path of a program as execve(2) wants it, from the directory dir.
func find(dir int, name string, env []string) (string, *refusal) {
	if strings.IndexByte(name, '/') >= 0 {
		if err := executable(dir, name); err != nil {
			return "", refuse(codeOf(err), "%s: %v", shown(name), err)
		}
		return name, nil
	}
	denied := false
	for _, d := range strings.Split(pathOf(env), ":") {
		if d == "" {
			d = "."
		}
		path := d + "/" + name
		err := executable(dir, path)
		if err == nil && name != "" {
			return path, nil
		}
		denied = denied || errors.Is(err, unix.EACCES)
	}
	if denied {
		return "", refuse(session.CodeNotExec, "%s: permission denied", shown(name))
	}
	return "", refuse(session.CodeNotFound, "%s: command not found", shown(name))
}

func executable(dir int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path, &st, 0); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	return unix.Faccessat(dir, path, unix.X_OK, 0)
}

// pathOf returns PATH of env.
func pathOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return defaultPath
}

// codeOf is the exit code for a program that execve(2) or a look at it refused with err.
// The kernel also says ENOENT for a script whose interpreter is not there.
func codeOf(err error) int {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return session.CodeNotFound
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return session.CodeOurs // no room for a process
	}
	return session.CodeNotExec
}

// shown is a name for a message: bounded and on one line.
func shown(name string) string { return fmt.Sprintf("%.200q", name) }

// lastOf drops every variable that is set again later.
func lastOf(env []string) []string {
	at := make(map[string]int, len(env))
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		at[name] = i
	}
	out := make([]string, 0, len(at))
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if at[name] == i {
			out = append(out, kv)
		}
	}
	return out
}
