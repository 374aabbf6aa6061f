package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// tryBomb nests directories in the working directory: a number of them, each with a name
// of a number of bytes. The innermost holds a file.
func tryBomb(r results, args []string) error {
	depth, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	length, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	name := strings.Repeat("b", length)
	for range depth {
		if err := os.Mkdir(name, 0o755); err != nil {
			return err
		}
		if err := os.Chdir(name); err != nil {
			return err
		}
	}
	r.note("made", os.WriteFile("f", []byte("bottom"), 0o644))
	return nil
}

// TestEscapeByDeepDirectories makes trees whose paths are longer than the kernel takes
// at once, and has them shown, landed and removed.
func TestEscapeByDeepDirectories(t *testing.T) {
	t.Parallel()
	b := served(t)
	for _, bomb := range [][2]string{{"500", "20"}, {"60", "255"}} {
		i := b.intrude(t)
		expect(t, i.try("bomb", bomb[0], bomb[1]), map[string]string{"made": "ok"})
		i.sh(`cd && "$1" attack bomb $2 $3`, i.weapon, bomb[0], bomb[1])
		b.run(t, 0, "diff", "--stat", i.id)
		b.run(t, 0, "diff", "--home", "--stat", i.id)
		out, code := b.sbxd("land", "--yes", i.id)
		switch code {
		case 0:
			if got := bottom(t, b.project); got != "bottom" {
				t.Errorf("%v: landed %q", bomb, got)
			}
			b.run(t, 0, "rm", i.id)
		case 7:
			t.Logf("%v: refused: %.300s", bomb, out)
			b.run(t, 0, "rm", "--discard", i.id)
		default:
			t.Errorf("%v: land ended with %d: %.300s", bomb, code, out)
		}
		if left, _ := filepath.Glob(filepath.Join(b.dir, "state", "*", "sessions", "*")); len(left) != 0 {
			t.Errorf("%v: left are %q", bomb, left)
		}
		b.owner(t, "rm -rf app/b*")
	}
}

// bottom reads the file in the innermost directory below dir.
func bottom(t *testing.T, dir string) string {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", at))
		if err != nil || len(f) != 1 {
			t.Fatalf("the tree holds %v, %v", f, err)
		}
		if !f[0].IsDir() {
			text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/%s", at, f[0].Name()))
			unix.Close(at)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		next, err := unix.Openat(at, f[0].Name(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
}

// tryNames makes a file for every byte that a name can hold, and one of the longest name.
func tryNames(r results, _ []string) error {
	for c := 1; c < 256; c++ {
		if c == '/' {
			continue
		}
		if err := os.WriteFile("n"+string([]byte{byte(c)}), []byte{byte(c)}, 0o644); err != nil {
			return err
		}
	}
	long := strings.Repeat("\xf0\x9f\x98\x80", 63) + "\xff\xfe\n"
	r.note("long", os.WriteFile(long, []byte("long"), 0o644))
	r.note("longer", os.WriteFile(long+"x", nil, 0o644))
	r.note("link", os.Symlink("\xff\n"+strings.Repeat("t", 4000), "link"))
	return nil
}

// TestEscapeByNames takes every byte through exec, diff and landing.
func TestEscapeByNames(t *testing.T) {
	t.Parallel()
	b := served(t)
	i := b.intrude(t)
	var all []byte
	for c := 1; c < 256; c++ {
		all = append(all, byte(c))
	}
	if out, code := i.exec("printf", "%s", string(all)); code != 0 || out != string(all) {
		t.Errorf("exec printed %q, %d", out, code)
	}
	expect(t, i.try("names"), map[string]string{"long": "ok", "longer": "ENAMETOOLONG", "link": "ok"})
	out, code := i.exec("sh", "-c", `cat "$0"`, "n\xff")
	if code != 0 || out != "\xff" {
		t.Errorf("exec read %q, %d", out, code)
	}
	// What a person reads before he agrees cannot steer his terminal.
	for _, args := range [][]string{{"diff", i.id}, {"land", "--dry-run", i.id}, {"diff", "--stat", i.id}} {
		out := onTerminal(t, b.cmd(args...))
		if strings.ContainsAny(strings.ReplaceAll(out, "\r\n", "\n"), "\x00\x07\x08\x0d\x1b\x7f\u009b\u202e") || !utf8.ValidString(out) || !strings.Contains(out, "link") {
			t.Errorf("sbxd %q lets control bytes through: %q", args, out)
		}
	}
	b.run(t, 0, "diff", "--json", i.id)
	b.run(t, 0, "land", "--yes", i.id)
	for c := 1; c < 256; c++ {
		if c == '/' {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(b.project, "n"+string([]byte{byte(c)}))); err != nil || string(text) != string([]byte{byte(c)}) {
			t.Errorf("byte %#x: %q %v", c, text, err)
		}
	}
	if n := b.owner(t, "ls -A app | wc -l; find app -type l | wc -l"); n == "" {
		t.Error("nothing landed")
	}
}

// TestEscapeBySpecialFiles leaves in project and HOME what has a meaning beyond bytes.
func TestEscapeBySpecialFiles(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"app/run.sh": "#!/bin/sh\n", "app/dir/f": "f"})
	i := b.intrude(t)
	i.sh(`mkfifo fifo; cp /bin/sh root-shell; chmod 4755 root-shell; cp /bin/sh group-shell; chmod 2755 group-shell; chmod 6777 run.sh
		mkdir sticky; chmod 3777 sticky; chmod 2775 dir; echo 1 >plain; mkdir -m 000 closed; echo x >unreadable; chmod 000 unreadable; ln plain second`)
	i.refuses("mknod dev c 1 3")
	i.refuses("mknod /tmp/dev b 8 0")
	i.refuses("setcap cap_setuid+ep root-shell")
	expect(t, i.try("socket"), map[string]string{"socket": "ok", "capability": "EPERM|EOPNOTSUPP|EINVAL"})
	b.run(t, 0, "diff", i.id)
	out, code := b.sbxd("land", "--yes", i.id)
	if code != 0 {
		t.Fatalf("land ended with %d: %s", code, out)
	}
	err := filepath.WalkDir(b.project, func(p string, d fs.DirEntry, err error) error {
		if d == nil {
			return err
		}
		info, ierr := d.Info()
		if ierr != nil {
			return ierr
		}
		if m := info.Mode(); m&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 {
			t.Errorf("on the host %s is %v", p, m)
		}
		if _, xerr := unix.Lgetxattr(p, "security.capability", nil); xerr == nil {
			t.Errorf("on the host %s has capabilities", p)
		}
		return nil
	})
	if err != nil {
		t.Log(err) // closed to this uid
	}
	if out := b.owner(t, "cat app/plain; test -x app/root-shell; stat -c %a app/root-shell"); !strings.HasPrefix(out, "1\n") {
		t.Errorf("landed: %s", out)
	}
}

// trySocketFile leaves a socket, and gives a program capabilities.
func trySocketFile(r results, _ []string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	r.note("socket", unix.Bind(fd, &unix.SockaddrUnix{Name: "sock"}))
	caps := []byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	r.note("capability", unix.Setxattr("root-shell", "security.capability", caps, 0))
	return nil
}
