package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestEscapeByTheHostsChanges changes on the host, under a running session, what is
// masked in it: what comes into a hidden path's place stays hidden.
func TestEscapeByTheHostsChanges(t *testing.T) {
	t.Parallel()
	b := served(t)
	w := filepath.Join(b.dir, "w")
	b.plant(t, map[string]string{
		"app/.env": "old", "app/conf/c": "old", "app/later/x": "", "notes/n": "old", ".ssh/id": "old", "app/deep/a/b/key": "old",
		w + "/in/secret": "old", w + "/in/dir/x": "old", w + "/in/plain": "plain",
	})
	i := b.intrude(t, "--mask", ".env", "--mask", "conf", "--mask", "later/key", "--mask", "~/notes", "--mask", "deep/a/b/key",
		"--ro", w+"/in", "--mask", w+"/in/secret", "--mask", w+"/in/dir")
	watch := b.cmd("exec", i.id, "--", "sh", "-c", `n=0; while [ ! -e stop ]; do
		cat .env conf/* later/key deep/a/b/key ~/notes/* ~/.ssh/* "$0"/in/secret "$0"/in/dir/* 2>/dev/null; n=$((n+1)); [ $n -lt 5 ] || touch ready; done`, w)
	var seen strings.Builder
	watch.Stdout = &seen
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, code := i.exec("test", "-e", "ready"); code == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the watcher does not run")
		}
	}
	b.owner(t, `s=$1
		for f in app/.env app/deep/a/b/key .ssh/id "$2/in/secret"; do echo $s >t; mv t "$f"; done
		echo $s >app/later/key
		rm -rf app/conf notes "$2/in/dir"; mkdir app/conf notes "$2/in/dir"
		echo $s >app/conf/c; echo $s >notes/n; echo $s >"$2/in/dir/x"
		mv app/deep app/deep2; mkdir -p app/deep/a/b; echo $s >app/deep/a/b/key
		[ -z "$3" ] || rm -r app/deep2 # what the host moves to another name is seen under that, at once
		mv .ssh .ssh2; mkdir .ssh; echo $s >.ssh/id; rm -r .ssh2
		rm app/.env; echo $s >app/.env`, secret, w, os.Getenv(testBackend))
	time.Sleep(300 * time.Millisecond)
	i.sh("touch stop")
	if err := watch.Wait(); err != nil {
		t.Error(err)
	}
	if strings.Contains(seen.String(), secret) || strings.Contains(seen.String(), "old") {
		t.Errorf("a command read %q", &seen)
	}
	i.sh("rm ready stop")
	i.holds(b.project+"/.env", b.project+"/conf", b.project+"/conf/c", b.project+"/later/key", b.home+"/notes", b.home+"/.ssh/id", b.project+"/deep/a/b/key")
	if out := i.sh(`cat "$1"/in/plain`, w); out != "plain" {
		t.Errorf("beside the hidden ones: %s", out)
	}
}

// TestEscapeByTheHostsChangesOutsideOfViews does the same where the host's own tree is
// seen, and a mask is lost with the name it lies on: the session has to end.
func TestEscapeByTheHostsChangesOutsideOfViews(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"tool/token": "old", "tool/dir/k": "old", "tool/open": "open"})
	for _, change := range []string{`echo $1 >t; mv t tool/token`, `rm tool/token; echo $1 >tool/token`, `rm -rf tool/dir; mkdir tool/dir; echo $1 >tool/dir/k`} {
		i := b.intrude(t, "--carve", "~/tool", "--final-mask", "~/tool/token", "--final-mask", "~/tool/dir")
		i.sh("test ! -s ~/tool/token")
		b.owner(t, change, secret)
		out := i.until("stopped")
		if !strings.Contains(out, "tool/") || !strings.Contains(out, "mask") {
			t.Errorf("the session does not say why it ended: %s", out)
		}
		b.run(t, 0, "rm", "--discard", i.id)
		b.owner(t, "rm -rf tool; mkdir -p tool/dir; echo old >tool/token; echo old >tool/dir/k")
	}
}

// until waits for a state of the session.
func (i *intruder) until(state string) string {
	i.t.Helper()
	out := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if out, _ = i.sbxd("status", "--json", i.id); strings.Contains(out, `"state": "`+state+`"`) {
			return out
		}
	}
	i.t.Errorf("session %s is never %s: %s", i.id, state, out)
	return out
}

// TestEscapeByMountsOfTheHost mounts on the host after the start, and looks for what
// was mounted before.
func TestEscapeByMountsOfTheHost(t *testing.T) {
	t.Parallel()
	testbox.Need(t, "root")
	b := served(t)
	b.plant(t, map[string]string{"app/late/": "", "early/": "", "app/conf/key": secret})
	mount := func(dir string) {
		t.Helper()
		if err := errors.Join(unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=777"), os.WriteFile(dir+"/f", []byte(secret), 0o644)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	// One that is there at the start is shown, and a socket in it leads nowhere.
	there := b.home + "/there"
	b.plant(t, map[string]string{there + "/": ""})
	mount(there)
	if err := os.WriteFile(there+"/f", []byte("there"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := listen(t, "unix", there+"/sock")
	i := b.intrude(t, "--mask", "conf")
	if out := i.sh("cat ~/there/f; test -S ~/there/sock"); out != "there" {
		t.Errorf("the mount below HOME holds %s", out)
	}
	expect(t, i.try("connect", socket), map[string]string{socket: "ECONNREFUSED|ENOENT|EACCES"})
	mount(b.project + "/late")
	i.hunt()
	if out := i.sh("grep -c 'master:\\|shared:' /proc/self/mountinfo /proc/1/mountinfo || true"); out != "/proc/self/mountinfo:0\n/proc/1/mountinfo:0" {
		t.Errorf("propagated mounts inside: %s", out)
	}
	// A second mount of what is hidden.
	dir := b.home + "/early"
	if err := unix.Mount(b.project, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	b.refused(t, 7, b.project+"/conf "+dir+"/conf", "start", "--project", b.project, "--mask", "conf")
}

// TestEscapeByFurtherNames makes further names of hidden files on the host before the
// start: it is refused, and both names are told.
func TestEscapeByFurtherNames(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"app/.env": secret, "app/sub/": "", ".ssh/id": secret, "Downloads/": ""})
	b.owner(t, "ln app/.env app/sub/readme.txt; ln .ssh/id Downloads/id")
	for _, args := range [][]string{{"--mask", ".env", "--mask", "~/Downloads"}, {"--mask", ".env", "--mask", "sub"}} {
		out, code := b.sbxd(append([]string{"start", "--project", b.project}, args...)...)
		if code != 7 {
			t.Errorf("start %q ended with %d: %s", args, code, out)
		}
	}
	b.refused(t, 7, ".env sub/readme.txt", "start", "--project", b.project, "--mask", ".env")
	b.refused(t, 7, ".ssh/id Downloads/id", "start", "--project", b.project)
	i := b.intrude(t, "--mask", ".env", "--mask", "sub/readme.txt", "--mask", "~/Downloads/id")
	i.holds(b.project+"/.env", b.project+"/sub/readme.txt", b.home+"/.ssh/id", b.home+"/Downloads/id")
}

// TestEscapeByMovedParents moves the directory of a hidden file in one session and looks
// for it in the next.
func TestEscapeByMovedParents(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"app/conf/c": secret, ".config/gh/hosts.yml": secret, "work/deep/er/key": secret})
	flags := []string{"--mask", "conf/c", "--mask", "~/work/deep/er/key"}
	i := b.intrude(t, flags...)
	for _, dir := range []string{"conf", "~/.config/gh", "~/.config", "~/work", "~/work/deep", "~/work/deep/er"} {
		i.refuses("mv -T " + dir + " " + dir + "2 2>/dev/null && test ! -e " + dir)
		i.refuses("python3 -c 'import os,sys; os.rename(*sys.argv[1:])' " + dir + " " + dir + "3")
		i.sh("rm -rf " + dir + "2; true")
	}
	i.hunt()
	_, _ = i.sbxd("land", "--yes", i.id)
	for _, next := range [][]string{flags, {"--mask", "conf/c", "--mask", "~/work"}} {
		b.intrude(t, next...).hunt()
	}
	if out := b.owner(t, "cat app/conf/c .config/gh/hosts.yml work/deep/er/key"); out != secret+secret+secret {
		t.Errorf("the host's files are %q", out)
	}
}
