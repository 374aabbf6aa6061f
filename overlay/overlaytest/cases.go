package overlaytest

import (
	"os"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// oneCase is a script that broke some other sandbox or union file system, with
// the public report it stands for. setup fills base directories $P and $H; session
// runs as an agent in the views $P and $H; check runs after it. All three must
// succeed on plain directories, and must do the same on views.
type oneCase struct {
	name, report string
	needs        []string
	setup        string
	session      string
	check        string
	// loose: what is left differs from run to run (times in git's objects).
	loose bool
}

func (s *suite) cases(t *testing.T) {
	for _, c := range append(semantics, programs...) {
		t.Run(c.name, func(t *testing.T) {
			testbox.Need(t, append([]string{"sh"}, c.needs...)...)
			t.Logf("stands for %s", c.report)
			want := s.plain(t, c)
			p := s.newView(t, func(dir string) error { return script(dir, c.setup, "P="+dir, "H="+dir+"/.h") })
			h := s.newView(t, func(dir string) error {
				if err := os.Mkdir(dir+"/.cache", 0o755); err != nil {
					return err
				}
				return os.WriteFile(dir+"/.cache/pkg", []byte("pkg\n"), 0o644)
			})
			env := []string{"P=" + p.P, "H=" + h.P, "LOW=" + p.lower}
			p.check(script(p.P, c.session, env...))
			p.check(script(p.P, c.check, env...))
			if c.loose {
				want = nil
			}
			p.consistent(want)
			p.check(script(p.P, c.check, env...))
			h.consistent(nil)
		})
	}
}

// plain runs a case on plain directories and returns what it leaves.
func (s *suite) plain(t *testing.T, c oneCase) Tree {
	t.Helper()
	p, h := s.dir(t), s.dir(t)
	env := []string{"P=" + p, "H=" + h, "LOW="}
	for _, part := range []string{"mkdir $H/.cache && echo pkg >$H/.cache/pkg", c.setup, c.session, c.check} {
		if err := script(p, strings.TrimSpace(part), env...); err != nil {
			t.Fatalf("on a plain directory: %v", err)
		}
	}
	tree, err := ReadTree(p)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// semantics are cases about what a union of directories gets wrong.
var semantics = []oneCase{
	{
		name: "B014 empty base", report: "tursodatabase/agentfs#106",
		session: `test -z "$(ls -A .)"; echo 1 >first; test "$(ls -A)" = first`,
		check:   `test "$(cat first)" = 1`,
	},
	{
		name: "B016 directory removed, another moved there", report: "containers/fuse-overlayfs#271",
		setup:   `mkdir -p lib/src; touch lib/src/one lib/src/two`,
		session: `cp -r lib lib.new; rm -rf lib; mv lib.new/src/one lib.new/src/uno; mv -T lib.new lib`,
		check:   `test "$(find lib | sort | tr '\n' ' ')" = "lib lib/src lib/src/two lib/src/uno "`,
	},
	{
		name: "B022 link counts", report: "containers/fuse-overlayfs#192",
		setup:   `echo x >l1; ln l1 l2`,
		session: `echo y >u1; ln u1 u2; test "$(stat -c %h u1 u2 l1 l2 | tr -d '\n')" = 2222; rm u2`,
		check:   `test "$(stat -c %h u1)" = 1`,
	},
	{
		name: "B026 read-only file", report: "containers/fuse-overlayfs#399",
		setup:   `echo ro >pack; chmod 444 pack`,
		session: `cp pack copy; if echo w 2>/dev/null >>pack; then exit 9; fi`,
		check:   `test "$(cat copy)" = ro; test "$(stat -c %a copy)" = 444`,
	},
	{
		name: "B028 mkdir with any mode", report: "containers/fuse-overlayfs#414",
		session: `mkdir -m 0555 ro; mkdir -m 0700 priv; mkdir -m 2755 sg; mkdir -m 1777 st`,
		check:   `test "$(stat -c %a ro priv sg st | tr '\n' ' ')" = "555 700 2755 1777 "`,
	},
	{
		name: "B030 set-id bits after data", report: "containers/fuse-overlayfs#127", needs: []string{"python3"},
		setup: `echo old >low; chmod 4755 low`,
		session: `python3 -c "
import os
fd = os.open('s', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
os.write(fd, b'1' * 9000); os.fchown(fd, os.getuid(), os.getgid()); os.fchmod(fd, 0o4755); os.close(fd)
fd = os.open('low', os.O_WRONLY)
os.write(fd, b'2' * 9000); os.fchmod(fd, 0o4711); os.close(fd)"`,
		check: `test "$(stat -c %a s low | tr '\n' ' ')" = "4755 4711 "`,
	},
	{
		name: "B036 very large directory", report: "trapexit/mergerfs#468",
		setup:   `mkdir big; cd big; seq -f 'l%05g' 800 | xargs touch`,
		session: `cd big; seq -f 'u%05g' 800 | xargs touch; test $(ls | wc -l) = 1600; cd ..; rm -r big`,
		check:   `test ! -e big`,
	},
	{
		name: "B038 name used again after rename", report: "anthropics/claude-code#67646",
		session: `for i in 1 2 3 4 5; do echo v$i >f.lock; mv f.lock f; : >f.lock; test "$(cat f)" = v$i || exit 1; rm f.lock; done`,
		check:   `test "$(cat f)" = v5; test ! -e f.lock`,
	},
	{
		name: "B048 modes by newer calls", report: "multikernel/sandlock#211", needs: []string{"python3"},
		setup:   `echo x >f; chmod 644 f`,
		session: `mkfifo -m 640 p; python3 -c "import os; os.chmod('f', 0o600, follow_symlinks=False)"`,
		check:   `test "$(stat -c %a p f | tr '\n' ' ')" = "640 600 "; test -z "$LOW" || test "$(stat -c %a "$LOW/f")" = 644`,
	},
	{
		name: "B018 deleted directory made again", report: "containers/fuse-overlayfs#324, binpash/try#163",
		setup:   `mkdir -p d/s; touch d/old d/s/old`,
		session: `rm -r d; mkdir -p d/s; touch d/s/new`,
		check: `test "$(find d | sort | tr '\n' ' ')" = "d d/s d/s/new "
			for gone in d/old d/s/old; do if stat $gone 2>/dev/null; then exit 9; fi; done`,
	},
	{
		name: "directory becomes file, file becomes directory", report: "containerd/continuity DiffDirChanges",
		setup:   `mkdir d; touch d/x; echo f >f; ln -s f l`,
		session: `rm -r d; echo now >d; rm f; mkdir f; echo in >f/in; rm l; mkdir l`,
		check:   `test "$(cat d f/in)" = "$(printf 'now\nin')"; test -d l`,
	},
	{
		name: "B020 names of whiteouts are ordinary", report: "image-spec#1314, containers/fuse-overlayfs#151",
		setup:   `echo keep >foo; mkdir dir; echo keep >dir/x; echo base >.wh.base`,
		session: `touch .wh.foo .wh. ; mkdir .wh..wh..opq; touch dir/.wh..wh..opq; mkfifo .wh.x; rm .wh.base`,
		check:   `test "$(cat foo dir/x)" = "$(printf 'keep\nkeep')"; test -d .wh..wh..opq`,
	},
}
