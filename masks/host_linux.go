package masks

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// OS is the real host. It only reads, by path, with the rights of the calling process.
type OS struct{}

var _ Host = OS{}

// Lstat implements Host. An automount point is not triggered.
func (OS) Lstat(path string) (Info, error) {
	var st unix.Stat_t
	err := lstat(path, &st)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return Info{}, nil
	case err != nil:
		return Info{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return infoOf(&st), nil
}

func infoOf(st *unix.Stat_t) Info {
	info := Info{Type: Other, ID: FileID{Dev: st.Dev, Ino: st.Ino}, Nlink: uint64(st.Nlink)} //nolint:unconvert // 32 bits on arm64
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		info.Type = File
	case unix.S_IFDIR:
		info.Type = Dir
	case unix.S_IFLNK:
		info.Type = Symlink
	}
	return info
}

// Readlink implements Host.
func (OS) Readlink(path string) (string, error) {
	dir, name, err := reach(path)
	if err != nil {
		return "", err
	}
	defer dir.close()
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir.fd, name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: path, Err: err}
	}
	return string(buf[:n]), nil
}

// ReadDir implements Host.
func (OS) ReadDir(path string) ([]string, error) {
	f, err := openDir(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// maxHop is how much of a path one system call gets; the kernel takes 4,095 bytes.
const maxHop = 2048

// at is a directory descriptor to start from.
type at struct{ fd int }

func (a at) close() {
	if a.fd != unix.AT_FDCWD {
		_ = unix.Close(a.fd)
	}
}

// reach shortens a long path to a descriptor and a rest that the kernel takes.
func reach(path string) (at, string, error) {
	dir := at{unix.AT_FDCWD}
	for len(path) > maxHop {
		i := strings.LastIndexByte(path[:maxHop], '/')
		if i <= 0 {
			break // one long component: the kernel will say so
		}
		fd, err := unix.Openat(dir.fd, path[:i], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		dir.close()
		if err != nil {
			return dir, "", &os.PathError{Op: "open", Path: path[:i], Err: err}
		}
		dir, path = at{fd}, strings.TrimLeft(path[i:], "/")
	}
	return dir, path, nil
}

func lstat(path string, st *unix.Stat_t) error {
	dir, name, err := reach(path)
	if err != nil {
		return err
	}
	defer dir.close()
	return unix.Fstatat(dir.fd, name, st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
}

func openDir(path string) (*os.File, error) {
	dir, name, err := reach(path)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	fd, err := unix.Openat(dir.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Aliases implements Host.
func (OS) Aliases(q AliasQuery) (AliasAnswer, error) {
	s := &aliasScan{q: q, want: map[FileID]*linked{}, skip: map[string]bool{}}
	for _, dir := range q.Skip {
		s.skip[dir] = true
	}
	for path, info := range q.Files {
		s.hidden(path, info)
		s.skip[path] = true
	}
	for _, dir := range q.Dirs {
		s.skip[dir] = true
		s.walk(dir, q.DirLimit, s.hidden)
	}
	if s.missing() == 0 {
		return AliasAnswer{}, nil
	}
	for _, root := range q.Roots {
		s.skip[root] = true // each is walked once, from its own
	}
	s.looking = true
	left, complete := q.Limit, true
	for _, root := range q.Roots {
		var whole bool
		left, whole = s.walk(root, left, s.visible)
		complete = complete && whole
	}
	return s.answer(complete), nil
}

// linked is a hidden inode with more than one link.
type linked struct {
	name    string // a hidden one
	seen    uint64 // links found so far
	nlink   uint64
	visible []string
}

type aliasScan struct {
	q    AliasQuery
	want map[FileID]*linked
	skip map[string]bool
	// looking says that hidden names are all known, and that the walk may end when the
	// last missing one is found.
	looking bool
}

func (s *aliasScan) hidden(path string, info Info) {
	if info.Type != File || info.Nlink < 2 {
		return
	}
	l := s.want[info.ID]
	if l == nil {
		l = &linked{name: path, nlink: info.Nlink}
		s.want[info.ID] = l
	}
	l.seen++
}

func (s *aliasScan) visible(path string, info Info) {
	if l := s.want[info.ID]; l != nil && info.Nlink > 1 {
		l.seen++
		l.visible = append(l.visible, path)
	}
}

// missing counts the inodes of which a name is still to be found.
func (s *aliasScan) missing() int {
	n := 0
	for _, l := range s.want {
		if l.seen < l.nlink {
			n++
		}
	}
	return n
}

// walk calls do for every regular file below root, upper levels first, without
// following links or entering other file systems or what is to be skipped. It looks
// at no more than limit entries and returns how many are left, and whether it saw all.
func (s *aliasScan) walk(root string, limit int, do func(string, Info)) (int, bool) {
	var st unix.Stat_t
	if lstat(root, &st) != nil {
		return limit, true
	}
	dev := st.Dev
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		f, err := openDir(dir)
		if err != nil {
			continue // what this uid cannot read, the session cannot either
		}
		entries, _ := f.ReadDir(-1)
		for _, e := range entries {
			if limit--; limit < 0 {
				_ = f.Close()
				return 0, false
			}
			path := filepath.Join(dir, e.Name())
			if s.skip[path] || (!e.IsDir() && !e.Type().IsRegular()) {
				continue
			}
			if unix.Fstatat(int(f.Fd()), e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) != nil || st.Dev != dev {
				continue
			}
			if e.IsDir() {
				queue = append(queue, path)
				continue
			}
			do(path, infoOf(&st))
		}
		_ = f.Close()
		if s.looking && s.missing() == 0 {
			break
		}
	}
	return limit, true
}

func (s *aliasScan) answer(complete bool) AliasAnswer {
	var a AliasAnswer
	for _, l := range s.want {
		for _, v := range l.visible {
			a.Links = append(a.Links, HardLink{Hidden: l.name, Visible: v})
		}
		if !complete && l.seen < l.nlink && len(l.visible) == 0 {
			a.Unsure = append(a.Unsure, l.name)
		}
	}
	slices.SortFunc(a.Links, func(x, y HardLink) int {
		if d := strings.Compare(x.Hidden, y.Hidden); d != 0 {
			return d
		}
		return strings.Compare(x.Visible, y.Visible)
	})
	slices.Sort(a.Unsure)
	return a
}
