package overlaytest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// files tests what a program can do with open files and names of files.
func (s *suite) files(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *view){
		"an old descriptor sees the copy":       oldDescriptor,
		"O_TMPFILE":                             tmpfile,
		"exchange":                              exchange,
		"RENAME_NOREPLACE":                      noReplace,
		"RENAME_WHITEOUT gives no mark":         renameWhiteout,
		"B044 a hole stays a hole":              sparse,
		"one name of a lower hard link written": lowerLinks,
		"new hard links":                        newLinks,
		"inode numbers":                         inodes,
		"mapped memory":                         mapped,
		"a running program is busy":             running,
		"sockets and FIFOs":                     specials,
		"truncate and seek":                     truncate,
	} {
		t.Run(name, func(t *testing.T) {
			v := s.newView(t, func(lower string) error {
				return script(lower, `echo abc >f; echo def >g; mkdir d e; echo in >d/in; echo xyz >h1; ln h1 h2; cp /bin/true prog`)
			})
			f(t, v)
			v.consistent(nil)
		})
	}
}

// want returns an error unless got is want.
func want[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v", what, got, want)
}

func content(path, text string) error {
	b, err := os.ReadFile(path)
	return errors.Join(err, want(path, string(b), text))
}

func oldDescriptor(_ *testing.T, v *view) {
	v.agent(func() error {
		old, err := os.Open(v.P + "/f")
		if err != nil {
			return err
		}
		defer old.Close()
		if err := os.WriteFile(v.P+"/f", []byte("new content"), 0o644); err != nil {
			return err
		}
		var b [32]byte
		n, err := old.ReadAt(b[:], 0)
		fi, serr := old.Stat()
		if err != nil && n == 0 || serr != nil {
			return errors.Join(err, serr)
		}
		return errors.Join(want("read", string(b[:n]), "new content"), want("size", fi.Size(), 11))
	})
}

func tmpfile(_ *testing.T, v *view) {
	v.agent(func() error {
		fd, err := unix.Open(v.P+"/d", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return fmt.Errorf("open O_TMPFILE: %w", err)
		}
		defer unix.Close(fd)
		if _, err := unix.Write(fd, []byte("linked\n")); err != nil {
			return err
		}
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, v.P+"/d/linked", unix.AT_SYMLINK_FOLLOW)
		return errors.Join(err, content(v.P+"/d/linked", "linked\n"))
	})
}

func exchange(_ *testing.T, v *view) {
	swap := func(a, b string) error {
		return unix.Renameat2(unix.AT_FDCWD, v.P+"/"+a, unix.AT_FDCWD, v.P+"/"+b, unix.RENAME_EXCHANGE)
	}
	v.agent(func() error {
		err := errors.Join(
			os.WriteFile(v.P+"/new", []byte("new\n"), 0o600),
			os.Mkdir(v.P+"/dir", 0o700),
			os.WriteFile(v.P+"/dir/x", nil, 0o600),
			swap("f", "g"), swap("new", "h1"), swap("dir", "h2"),
		)
		return errors.Join(err, content(v.P+"/f", "def\n"), content(v.P+"/g", "abc\n"),
			content(v.P+"/new", "xyz\n"), content(v.P+"/h1", "new\n"), content(v.P+"/dir", "xyz\n"), content(v.P+"/h2/x", ""))
	})
}

func noReplace(_ *testing.T, v *view) {
	v.agent(func() error {
		ren := func(a, b string) error {
			return unix.Renameat2(unix.AT_FDCWD, v.P+"/"+a, unix.AT_FDCWD, v.P+"/"+b, unix.RENAME_NOREPLACE)
		}
		return errors.Join(fails("rename onto a name", ren("f", "g"), unix.EEXIST), os.Remove(v.P+"/g"), ren("f", "g"), content(v.P+"/g", "abc\n"))
	})
}

func renameWhiteout(_ *testing.T, v *view) {
	v.agent(func() error {
		err := unix.Renameat2(unix.AT_FDCWD, v.P+"/f", unix.AT_FDCWD, v.P+"/moved", unix.RENAME_WHITEOUT)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("rename: %w, want EINVAL, EPERM or success", err)
		}
		var st unix.Stat_t
		if err != nil {
			return nil //nolint:nilerr // refused is as good
		}
		return fails("stat of the old name", unix.Lstat(v.P+"/f", &st), unix.ENOENT)
	})
}

func sparse(_ *testing.T, v *view) {
	v.unmount()
	const size = 16 << 20
	v.check(asAgent(func() error {
		return errors.Join(os.WriteFile(v.lower+"/hole", []byte("head"), 0o600), os.Truncate(v.lower+"/hole", size))
	}))
	v.frozen = false
	v.mount()
	v.agent(func() error {
		f, err := os.OpenFile(v.P+"/hole", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte("tail"), size-4)
		return err
	})
	var st unix.Stat_t
	v.check(unix.Lstat(v.upper+"/hole", &st))
	if st.Size != size || st.Blocks*512 > size/8 {
		v.t.Errorf("the copy has %d bytes, %d allocated, want a hole", st.Size, st.Blocks*512)
	}
}

func lowerLinks(t *testing.T, v *view) {
	v.agent(func() error {
		f, err := os.OpenFile(v.P+"/h1", os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString("more\n")
		return errors.Join(err, content(v.P+"/h1", "xyz\nmore\n"))
	})
	// A backend may break the link or keep it; it may not lose the edit.
	v.remount()
	if err := content(v.P+"/h1", "xyz\nmore\n"); err != nil {
		t.Errorf("after a remount: %v", err)
	}
}

func newLinks(_ *testing.T, v *view) {
	v.agent(func() error {
		err := errors.Join(os.Link(v.P+"/f", v.P+"/d/f2"), os.Link(v.P+"/d/f2", v.P+"/f3"),
			os.WriteFile(v.P+"/f3", []byte("all\n"), 0o600))
		var st unix.Stat_t
		return errors.Join(err, content(v.P+"/f", "all\n"), content(v.P+"/d/f2", "all\n"),
			unix.Lstat(v.P+"/f", &st), want("links", st.Nlink, 3))
	})
}

func inodes(_ *testing.T, v *view) {
	v.agent(func() error {
		var before, after, dir unix.Stat_t
		err := errors.Join(unix.Lstat(v.P+"/f", &before), os.Chmod(v.P+"/f", 0o600), unix.Lstat(v.P+"/f", &after), unix.Lstat(v.P+"/d", &dir))
		if err != nil {
			return err
		}
		names, err := os.ReadDir(v.P)
		for _, n := range names {
			fi, e := n.Info()
			if e != nil {
				return e
			}
			st, _ := fi.Sys().(*syscall.Stat_t)
			err = errors.Join(err, want("device of "+n.Name(), st.Dev, dir.Dev))
		}
		return errors.Join(err, want("inode after copy-up", after.Ino, before.Ino))
	})
}

func mapped(_ *testing.T, v *view) {
	v.agent(func() error {
		f, err := os.OpenFile(v.P+"/f", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		m, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		copy(m, "MAP")
		return errors.Join(content(v.P+"/f", "MAP\n"), unix.Munmap(m))
	})
}

func running(_ *testing.T, v *view) {
	v.agent(func() error {
		if err := script(v.P, "./prog"); err != nil {
			return err
		}
		// Deny-write while it runs is lost in Linux 6.11; losing data is not.
		err := script(v.P, `cp prog sleeper; ./sleeper; echo "#" >>prog; ./prog`)
		if err != nil {
			return fmt.Errorf("write and run: %w", err)
		}
		return nil
	})
}

func specials(_ *testing.T, v *view) {
	v.agent(func() error {
		if err := unix.Mkfifo(v.P+"/d/fifo", 0o600); err != nil {
			return err
		}
		rw, err := os.OpenFile(v.P+"/d/fifo", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer rw.Close()
		var b [4]byte
		_, werr := rw.WriteString("ping")
		_, rerr := rw.Read(b[:])
		if err := errors.Join(werr, rerr, want("read from the FIFO", string(b[:]), "ping")); err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		dir, err := os.Open(v.P + "/d") // the path may be longer than an address
		if err != nil {
			return err
		}
		defer dir.Close()
		addr := &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/sock", dir.Fd())}
		if err := errors.Join(unix.Bind(fd, addr), unix.Listen(fd, 1)); err != nil {
			return err
		}
		c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(c)
		return unix.Connect(c, addr)
	})
}

func truncate(_ *testing.T, v *view) {
	v.agent(func() error {
		f, err := os.OpenFile(v.P+"/g", os.O_RDWR|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte("x"), 2)
		return errors.Join(err, f.Sync(), content(v.P+"/g", "\x00\x00x"), os.Truncate(v.P+"/f", 2), content(v.P+"/f", "ab"))
	})
}
