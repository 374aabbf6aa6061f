package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Root is the state root: opened through no link, its owner and mode checked, its lock
// held until Close. There are two layouts. A user's holds sessions/ and lands/ itself;
// the system's (euid 0) holds one directory a uid, owned by that uid, and root/ with
// the records that only root trusts.
type Root struct {
	path   string
	uid    int
	system bool
	dir    *os.File // for its flock: systemd-tmpfiles skips a locked directory
	lock   *os.File
}

// DefaultRoot returns the state root of uid when none is configured: /var/lib/sbxd for
// root, /var/tmp/sbxd-<uid> for anybody else.
func DefaultRoot(uid int) string {
	if uid == 0 {
		return "/var/lib/sbxd"
	}
	tmp := "/var/tmp"
	if real, err := filepath.EvalSymlinks(tmp); err == nil {
		tmp = real // a link of the system's, made by root
	}
	return filepath.Join(tmp, "sbxd-"+strconv.Itoa(uid))
}

// OpenRoot opens the state root at path, makes it when it is missing, and takes its
// lock. ErrBusy: another daemon has it. ErrDenied: owner, mode or a link on the way.
// A lock whose holder died is free by itself.
func OpenRoot(path string) (*Root, error) {
	return openRoot(path, os.Geteuid() == 0)
}

func openRoot(path string, system bool) (*Root, error) {
	r := &Root{path: path, uid: os.Geteuid(), system: system}
	if err := r.open(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Root) open() error {
	if !filepath.IsAbs(r.path) || filepath.Clean(r.path) != r.path || r.path == "/" || strings.ContainsRune(r.path, 0) {
		return fmt.Errorf("state root %.200q: %w: it has to be a clean absolute path", r.path, ErrRefused)
	}
	mode := fs.FileMode(0o700)
	if r.system {
		mode = 0o711 // the uids' directories below are 0700 each
	}
	var err error
	r.dir, err = ownDir(r.path, mode)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("state root %.200s: %w: it is not a directory; name another", r.path, ErrDenied)
	case errors.Is(err, unix.ENAMETOOLONG):
		return fmt.Errorf("state root %.200s…: %w: it is longer than a path can be; name another", r.path, ErrRefused)
	case err != nil:
		return fmt.Errorf("state root %s: %w", r.path, err)
	}
	if err := r.take(); err != nil {
		return err
	}
	for _, d := range r.fixedDirs() {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making %s: %w", d, err)
		}
	}
	return nil
}

// OwnDir makes the directory at path, if it is missing, and checks that it is ours, of
// no wider mode, and reached through no link. ErrDenied: it is not so.
func OwnDir(path string, mode fs.FileMode) error {
	f, err := ownDir(path, mode)
	if err != nil {
		return err
	}
	return f.Close()
}

func ownDir(path string, mode fs.FileMode) (*os.File, error) {
	if err := noLinks(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return openOwn(path, os.Geteuid(), mode)
}

// openOwn opens a directory through no link and checks that it is uid's alone.
func openOwn(path string, uid int, mode fs.FileMode) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, how)
	if err != nil {
		return nil, os.NewSyscallError("openat2", err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err := checkOwn(f, uid, mode); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// noLinks refuses a path that goes through a link, before anything is made there. What
// is opened later is opened through none either.
func noLinks(path string) error {
	for have, rest := path, ""; ; have, rest = filepath.Dir(have), filepath.Join(filepath.Base(have), rest) {
		if _, err := os.Lstat(have); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		real, err := filepath.EvalSymlinks(have)
		if err != nil {
			return err
		}
		if real != have {
			return fmt.Errorf("%w: a link lies on its path; name it as %s", ErrDenied, filepath.Join(real, rest))
		}
		return nil
	}
}

func checkOwn(f *os.File, uid int, mode fs.FileMode) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	owner := int(st.Sys().(*syscall.Stat_t).Uid)
	if owner != uid {
		return fmt.Errorf("%w: it belongs to uid %d, not to %d; remove it or name another", ErrDenied, owner, uid)
	}
	if extra := st.Mode().Perm() &^ mode; extra != 0 {
		return fmt.Errorf("%w: its mode is %04o; run chmod %04o on it", ErrDenied, st.Mode().Perm(), mode)
	}
	return nil
}

// take locks the root for the life of this process. The lock file is never removed:
// removing it would let two holders have two files.
func (r *Root) take() error {
	fd, err := unix.Openat(int(r.dir.Fd()), "lock", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("opening the lock of %s: %w", r.path, err)
	}
	r.lock = os.NewFile(uintptr(fd), filepath.Join(r.path, "lock"))
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("state root %s is %w: %s holds its lock; stop that daemon or set SBXD_STATE",
			r.path, ErrBusy, r.holder())
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", r.path, err)
	}
	if err := r.lock.Truncate(0); err != nil {
		return fmt.Errorf("writing the lock of %s: %w", r.path, err)
	}
	// The number is only for the message of whoever comes second.
	if _, err := r.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("writing the lock of %s: %w", r.path, err)
	}
	_ = unix.Flock(int(r.dir.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return nil
}

func (r *Root) holder() string {
	b := make([]byte, 16)
	n, _ := r.lock.ReadAt(b, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
		return "process " + strconv.Itoa(pid)
	}
	return "another process"
}

// Locked reports whether a daemon holds the state root at path, without taking it.
func Locked(path string) bool {
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	// A shared lock, given back with the descriptor: two askers do not see each other.
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Close gives the root back.
func (r *Root) Close() {
	for _, f := range []*os.File{r.lock, r.dir} {
		if f != nil {
			f.Close()
		}
	}
}

// Path returns the state root's path.
func (r *Root) Path() string { return r.path }

// System reports whether this is the layout of the system's daemon.
func (r *Root) System() bool { return r.system }
