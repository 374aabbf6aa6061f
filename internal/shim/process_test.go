package shim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/guest"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/internal/wire"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

// The test binary is every stage of a session as well.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case "bwrap":
		os.Exit(fakeBwrap())
	case "orphan":
		os.Exit(orphan())
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "holder":
			os.Exit(holder.Main())
		case "mounter":
			os.Exit(holder.MounterMain())
		case "guest":
			fd, _ := strconv.Atoi(os.Args[2])
			os.Exit(guest.Main(fd))
		case ProbeStage:
			os.Exit(ProbeMain())
		case "shim":
			os.Exit(Main())
		case "test-parent":
			os.Exit(testParent())
		case "orphan-parent":
			os.Exit(orphanParent())
		}
	}
	testbox.Main(m)
}

// job is what a test asks of its unprivileged parent process.
type job struct {
	Frame  holder.Frame
	Spec   holder.Spec
	Script string
}

func testParent() int {
	var j job
	if err := holder.Decode(os.Stdin, &j); err != nil {
		fmt.Fprintln(os.Stderr, "decode:", err)
		return 1
	}
	s, err := sandboxOf(j.Frame)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.inner.kill()
	if _, err := s.inner.build(j.Spec, nil, serving{}, time.Now().Add(20*time.Second)); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	return script(s.guest, j.Script)
}

// sandboxOf makes one with a guest in it, and without what else a shim does to itself.
func sandboxOf(frame holder.Frame) (s *shim, err error) {
	s = &shim{}
	if s.inner, err = startHolder(frame); err != nil {
		return s, err
	}
	deadline := time.Now().Add(20 * time.Second)
	for _, do := range []func(time.Time) error{s.inner.framed, s.identify, s.inner.meet, s.greet} {
		if err := do(deadline); err != nil {
			s.inner.kill()
			return s, err
		}
	}
	return s, nil
}

// script runs a shell script by the guest and passes its output on.
func script(conn *wire.Conn, text string) int {
	run := &session.Command{Argv: session.Words{"/bin/sh", "-c", text}, Env: session.Words{"PATH=/usr/bin:/bin"}, Cwd: "/"}
	if err := conn.Write(session.Msg{Type: session.MsgExec, ID: 1, Run: run}, nil); err != nil {
		fmt.Fprintln(os.Stderr, "exec:", err)
		return 1
	}
	for {
		var m session.Msg
		b, err := conn.Read(&m)
		switch {
		case err != nil:
			fmt.Fprintln(os.Stderr, "output:", err)
			return 1
		case m.Type == session.MsgOut:
			_, _ = os.Stdout.Write(b)
		case m.Type == session.MsgExit, m.Type == session.MsgRefused:
			fmt.Printf("[exit %d%s]\n", m.Code, m.Message)
			return 0
		}
	}
}

// inTree runs a script in the tree that spec describes, as the unprivileged user.
func inTree(t *testing.T, spec holder.Spec, script string) string {
	t.Helper()
	testbox.Need(t, "bwrap", "overlay-userns")
	var stdin bytes.Buffer
	if err := holder.Encode(&stdin, job{frame(t), spec, script}); err != nil {
		t.Fatal(err)
	}
	cmd := testbox.UserCommand(t, "/proc/self/exe", "test-parent")
	cmd.Stdin = &stdin
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return string(out)
}

// tree makes HOME with a project in it and the spec of a session of it.
func tree(t *testing.T) (holder.Spec, string) {
	t.Helper()
	dir := testbox.TempDir(t)
	uid, gid := testbox.AsUser(t)
	mk := func(p string) string {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, p := range []string{"home/app", "home/.ssh", "state/home/upper", "state/home/work", "state/project/upper", "state/project/work"} {
		mk(p)
	}
	for name, text := range map[string]string{"home/.ssh/id": "SECRET", "home/app/f": "base\n", "home/.netrc": "SECRET"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_ = filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error { return os.Lchown(p, uid, gid) })
	return holder.Spec{
		Views: []holder.View{
			{Path: dir + "/home", Dir: dir + "/state/home"},
			{Path: dir + "/home/app", Dir: dir + "/state/project"},
		},
		Steps: []masks.Step{
			{Op: masks.Cover, Path: dir + "/home/.ssh", Kind: masks.KindDir},
			{Op: masks.Cover, Path: dir + "/home/.netrc", Kind: masks.KindFile},
		},
		Resolv: "# none\n",
	}, dir
}

func frame(t *testing.T) holder.Frame {
	uid, _ := testbox.AsUser(t)
	return holder.Frame{
		UID:     uid,
		Bwrap:   bwrap.Findings{Program: "/usr/bin/bwrap", DisableUserns: true, Size: true},
		TmpSize: 64 << 20, ShmSize: 1 << 20,
	}
}

func TestTreeShowsViewsAndHidesMasks(t *testing.T) {
	spec, dir := tree(t)
	out := inTree(t, spec, `cd `+dir+`/home/app && cat f && echo new >f && cat f && echo n >added
ls -A ~/ 2>/dev/null; cat ../.ssh/id ../.netrc; ls -A ../.ssh; echo x >../.ssh/n; mv ../.ssh ../s; rm -rf ../.netrc
touch /usr/x /etc/x /run/x /x; ls /; cat /etc/resolv.conf; id -u; pwd; echo t >/tmp/t && cat /tmp/t; ls -la /proc/self/fd | wc -l
perl -e 'rename($ARGV[0], $ARGV[1]) or print "pinned: $!\n"' `+filepath.Dir(dir)+` /tmp/elsewhere`)
	t.Log(out)
	for _, want := range []string{"base\nnew\n", "# none", "pinned: Device or resource busy"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	if strings.Contains(out, "SECRET") {
		t.Error("a mask shows what it covers")
	}
	b, err := os.ReadFile(dir + "/home/app/f")
	if err != nil || string(b) != "base\n" {
		t.Errorf("the real file is %q (%v), want it untouched", b, err)
	}
	if _, err := os.Lstat(dir + "/state/project/upper/added"); err != nil {
		t.Error(err)
	}
}
