package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tryMasks attacks masked paths: its arguments. It notes under "PATH: ATTEMPT" how each
// attempt ended, and the secret where that was read. The directories above are attacked
// as far as ATTACK_ROOTS, a list of directories that are not.
func tryMasks(r results, paths []string) error {
	for _, path := range paths {
		for name, do := range onMask(path) {
			r.note(path+": "+name, do())
		}
		for name, alias := range map[string]string{
			"/proc/self/root": "/proc/self/root" + path, "/proc/1/root": "/proc/1/root" + path,
			"/proc/self/cwd": "/proc/self/cwd/" + strings.Repeat("../", 20) + path, "the path": path,
		} {
			r[path+": read by "+name] = reads(alias)
		}
		for dir := filepath.Dir(path); len(dir) > 1 && !strings.Contains(":"+os.Getenv("ATTACK_ROOTS")+":", ":"+dir+":"); dir = filepath.Dir(dir) {
			r.note(path+": move "+dir, os.Rename(dir, dir+".moved"))
			r.note(path+": move "+dir+" to /tmp", os.Rename(dir, "/tmp/moved"))
			r.note(path+": exchange "+dir, exchange(dir))
		}
	}
	return nil
}

// reads returns the secret if a file, or any below a directory, holds it.
func reads(path string) string {
	found := "nothing"
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if text, _ := os.ReadFile(p); strings.Contains(string(text), secret) {
				found = secret
			}
		}
		return nil
	})
	return found
}

func exchange(path string) error {
	other := fmt.Sprintf("%s/.exchange-%d", filepath.Dir(path), os.Getpid())
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		err = os.Mkdir(other, 0o755)
		if err != nil {
			return err
		}
	} else if err := os.WriteFile(other, []byte("mine"), 0o644); err != nil {
		return err
	}
	defer os.RemoveAll(other)
	return unix.Renameat2(unix.AT_FDCWD, other, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
}

// onMask are the ways to change what is at a path.
func onMask(path string) map[string]func() error {
	write := func(flags int) func() error {
		return func() error {
			fd, err := unix.Open(path, unix.O_WRONLY|flags, 0o644)
			if err == nil {
				_, err = unix.Write(fd, []byte("mine"))
				unix.Close(fd)
			}
			return err
		}
	}
	below := path + "/mine"
	return map[string]func() error{
		"write":         write(0),
		"append":        write(unix.O_APPEND),
		"create":        write(unix.O_CREAT),
		"create anew":   write(unix.O_CREAT | unix.O_EXCL),
		"truncate":      func() error { return os.Truncate(path, 0) },
		"unlink":        func() error { return unix.Unlink(path) },
		"rmdir":         func() error { return unix.Rmdir(path) },
		"mkdir":         func() error { return unix.Mkdir(path, 0o755) },
		"mkfifo":        func() error { return unix.Mkfifo(path, 0o644) },
		"symlink":       func() error { return os.Symlink("/tmp", path) },
		"move away":     func() error { return os.Rename(path, path+".moved") },
		"move to /tmp":  func() error { return os.Rename(path, "/tmp/stolen") },
		"exchange":      func() error { return exchange(path) },
		"link":          func() error { return os.Link(path, path+".link") },
		"link to /tmp":  func() error { return os.Link(path, "/tmp/link") },
		"chmod":         func() error { return os.Chmod(path, 0o777) },
		"touch":         func() error { return unix.Utimes(path, []unix.Timeval{{}, {}}) },
		"attribute":     func() error { return unix.Setxattr(path, "user.mine", []byte("x"), 0) },
		"create below":  func() error { return os.WriteFile(below, []byte("mine"), 0o644) },
		"mkdir below":   func() error { return unix.Mkdir(below, 0o755) },
		"symlink below": func() error { return os.Symlink("/tmp", below) },
		"replace": func() error {
			if err := os.WriteFile(path+".mine", []byte("mine"), 0o644); err != nil {
				return err
			}
			defer os.Remove(path + ".mine")
			return os.Rename(path+".mine", path)
		},
		"replace by a directory": func() error {
			if err := os.Mkdir(path+".mine", 0o755); err != nil {
				return err
			}
			defer os.Remove(path + ".mine")
			return os.Rename(path+".mine", path)
		},
		"hide behind a link to itself": func() error {
			return errors.Join(os.Link("/proc/self/root"+path, path+".x"))
		},
	}
}

// holds attacks masked paths from inside: nothing of it may work.
func (i *intruder) holds(paths ...string) {
	i.t.Helper()
	cmd := i.cmd(append([]string{
		"exec", "--env", "ATTACK_ROOTS=" + i.home + ":" + i.project, i.id, "--", i.weapon, "attack", "masks",
	}, paths...)...)
	got := runTrick(i.t, cmd)
	if len(got) < 20*len(paths) {
		i.t.Errorf("only %d attempts were made", len(got))
	}
	for name, g := range got {
		if g == "ok" || g == secret {
			i.t.Errorf("%s: %s", name, g)
		}
	}
	i.hunt()
}

// TestEscapeByMaskedPaths attacks what is masked in each way of naming it.
func TestEscapeByMaskedPaths(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{
		".ssh/id": secret, ".netrc": secret, "k1/f": secret, "k2": secret, "a/b/c/f": secret, "app/.env": secret, "app/sub/key": secret,
		"app/keys/one": secret, ".cache/huggingface/token": secret, ".cache/f": "f", "tool/token": secret, "tool/deep/keys/k": secret, "tool/open": "open", "real/f": secret, "real/g": "g", "real2/f": secret,
		"app/two  words\n#:,\\": secret, "out/deny/allow/deny/f": secret, "out/deny/allow/ok": "ok", "out/deny/f": secret,
	})
	b.owner(t, "ln -s real alias; ln -s ../real2 app/alias")
	before := b.owner(t, "find . -printf '%i %m %n %p %l\n' | sort")
	i := b.intrude(t, "--mask", "~/k1/", "--mask", b.home+"//k2", "--mask", "~/a/./b/c/f", "--mask", ".env", "--mask", "sub/key", "--mask", "keys/",
		"--mask", "~/alias/f", "--mask", "alias", "--mask", "two  words\n#:,\\", "--mask", "~/gone/file", "--mask", "~/gone/dir/", "--mask", "later",
		"--mask", "~/out/deny", "--carve", "~/out/deny/allow", "--final-mask", "~/out/deny/allow/deny",
		"--ro", "~/.cache", "--carve", "~/tool", "--final-mask", "~/tool/token", "--final-mask", "~/tool/deep/keys")
	h, p := b.home+"/", b.project+"/"

	i.holds(h+".ssh", h+".ssh/id", h+".netrc", h+".aws", h+".aws/credentials", h+".config/gh/hosts.yml", h+"k1", h+"k1/f", h+"k2", h+"a/b/c/f",
		p+".env", p+"sub/key", p+"keys", p+"keys/one", p+"two  words\n#:,\\", h+"gone/file", h+"gone/dir", h+"gone/dir/x", p+"later")
	i.holds(h + ".cache/huggingface/token") // an input lies above it
	i.holds(h+"real/f", h+"alias/f", h+"real2", h+"real2/f", p+"alias", p+"alias/f")
	i.holds(h+"tool/token", h+"tool/deep/keys", h+"tool/deep/keys/k", h+"out/deny/f", h+"out/deny/allow/deny", h+"out/deny/allow/deny/f")

	t.Run("what lies beside is there", func(t *testing.T) {
		if out := i.sh("cat ~/real/g ~/tool/open ~/out/deny/allow/ok ~/.cache/f"); out != "gopenokf" {
			t.Errorf("read %q", out)
		}
		i.sh("echo x >~/tool/new && rm ~/tool/new")
	})
	t.Run("the host has not changed and the session has no change", func(t *testing.T) {
		if after := b.owner(t, "find . -printf '%i %m %n %p %l\n' | sort"); after != before {
			t.Errorf("HOME was\n%s\nand is\n%s", before, after)
		}
		for _, home := range []string{"--home", "--stat"} {
			if out := b.run(t, 0, "diff", home, "--json", i.id); strings.Contains(out, `"path"`) {
				t.Errorf("diff %s: %s", home, out)
			}
		}
	})
	t.Run("a pattern that nothing can hold is refused by name", func(t *testing.T) {
		for _, mask := range []string{"**/.env", "*.pem", "~/.aws/*", "conf/[ab]", "x{y,z}", "a?b"} {
			for _, flag := range []string{"--final-mask", "--ro", "--carve"} {
				b.refused(t, 7, "pattern "+flag, "start", "--project", b.project, flag, mask)
			}
			b.refused(t, 7, "pattern unionfs", "start", "--project", b.project, "--backend", "kernel", "--mask", mask)
		}
		for _, mask := range []string{"/etc/*.key", "/*", "~/*", "[", "~/**"} {
			b.refused(t, 7, "--mask", "start", "--project", b.project, "--mask", mask)
		}
	})
	t.Run("what would uncover is refused", func(t *testing.T) {
		for _, args := range [][]string{
			{"--carve", "~/.ssh"},
			{"--carve", "~"},
			{"--carve", b.project},
			{"--carve", ".git/hooks"},
			{"--carve", "~/.bashrc"},
			{"--carve", "~/.config"},
			{"--ro", "~"},
			{"--ro", b.dir},
			{"--ro", "/"},
			{"--ro", "~/.ssh"},
			{"--ro", "~/.ssh/id"},
			{"--ro", b.project},
			{"--ro", "/proc"},
			{"--ro", "/tmp"},
			{"--ro", filepath.Join(b.dir, "state")},
			{"--carve", filepath.Join(b.dir, "state")},
			{"--carve", filepath.Join(b.dir, "run")},
			{"--mask", "~/k1", "--carve", "~/k1"},
			{"--carve", "~/tool", "--final-mask", "~/tool/missing"},
			{"--carve", "/etc"},
			{"--carve", "/usr/local"},
			{"--mask", "~/x/../k1"},
			{"--mask", "~root/x"},
			{"--mask", "$HOME/k1"},
			{"--mask", ""},
			{"--mask", "//k1"},
		} {
			out, code := b.sbxd(append([]string{"start", "--project", b.project}, args...)...)
			if code != 2 && code != 7 {
				t.Errorf("start %q ended with %d: %s", args, code, out)
			}
		}
		if n := len(strings.Fields(b.run(t, 0, "list", "-q"))); n != 1 {
			t.Errorf("there are %d sessions, want 1", n)
		}
	})
}
