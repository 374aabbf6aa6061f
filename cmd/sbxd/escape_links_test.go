package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEscapeByLinksAtMasks masks links that a hostile project brings along: each is
// covered itself, nothing of the host is made or hidden where it leads, and what it leads
// to in the project is no way around.
func TestEscapeByLinksAtMasks(t *testing.T) {
	t.Parallel()
	b := served(t)
	w := filepath.Join(b.dir, "w")
	b.plant(t, map[string]string{w + "/vault/bashrc": "vault", ".bashrc": "mine", "app/real": secret, "app/dir/f": secret, "app/conf.d/f": "f"})
	b.owner(t, `cd app; ln -s "$1/vault/bashrc" .env; ln -s /etc conf; ln -s real cred; ln -s nowhere/at/all gone; ln -s loop loop; ln -s ../.bashrc up
		ln -s "/oldroot$HOME/.bashrc" oldroot; ln -s dir dirlink; ln -s "$1/vault" vaults; ln -s /proc/self/root/etc/hostname proc`, w)
	before := b.owner(t, `find . "$1" -printf '%i %m %p %l\n' | sort`, w)
	names := []string{".env", "conf", "cred", "gone", "loop", "up", "oldroot", "dirlink", "vaults", "proc"}
	var flags, paths []string
	for _, n := range names {
		flags, paths = append(flags, "--mask", n), append(paths, b.project+"/"+n)
	}
	i := b.intrude(t, flags...)
	i.holds(append(paths, b.project+"/real", b.project+"/dir/f")...)
	if out := i.sh("ls /etc | wc -l; cat conf.d/f; test -e .env/x || ls -A ~ | tr '\\n' ' '"); strings.HasPrefix(out, "0\n") || !strings.Contains(out, "\nf") {
		t.Errorf("inside: %s", out)
	}
	if after := b.owner(t, `find . "$1" -printf '%i %m %p %l\n' | sort`, w); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
	// The same through a link above the masked name.
	j := b.intrude(t, "--mask", "cred", "--mask", "dirlink/f", "--mask", "vaults/bashrc", "--mask", "conf/hostname")
	j.holds(b.project+"/dirlink/f", b.project+"/dir/f")
	if after := b.owner(t, `find . "$1" -printf '%i %m %p %l\n' | sort; cat "$1/vault/bashrc"`, w); after != before+"\nvault" {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
}

// TestEscapeByACarveOutThatBecomesALink puts a link in the place of a carve-out: between
// two sessions, where the second is refused, and over and over while sessions start.
func TestEscapeByACarveOutThatBecomesALink(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{".ssh/id": secret, "share/in/x": "x", "other/id": secret})
	config := filepath.Join(b.dir, "config.toml")
	if err := os.WriteFile(config, []byte("carves = [\"~/share/in\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// One session, with the directory above writable, prepares it for the next.
	i := b.intrude(t)
	if out := i.sh("cat ~/share/in/x; echo y >~/share/in/y"); out != "x" {
		t.Errorf("the carve-out holds %s", out)
	}
	b.run(t, 0, "stop", i.id)
	for _, target := range []string{"$HOME/.ssh", "../other", "/etc", "in"} {
		b.owner(t, "mv share/in share/was; ln -s "+target+" share/in")
		b.refused(t, 7, "share/in", "start", "--project", b.project)
		b.refused(t, 7, "share/in", "resume", i.id)
		b.owner(t, "rm share/in; mv share/was share/in")
	}

	in, aside := b.home+"/share/in", b.home+"/share/link"
	b.owner(t, "ln -s ../other share/link")
	var stop atomic.Bool
	swapped := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			_ = unix.Renameat2(unix.AT_FDCWD, in, unix.AT_FDCWD, aside, unix.RENAME_EXCHANGE)
		}
		swapped <- n
	}()
	started := 0
	for range 12 {
		out, code := b.sbxd("start", "--project", b.project)
		switch code {
		case 0:
			started++
			j := &intruder{box: b, t: t, id: strings.TrimSpace(out)}
			if out, _ := j.exec("sh", "-c", "ls ~/share/in/; cat ~/share/in/x; echo pwned >~/share/in/pwned"); strings.TrimPrefix(out, "pwned\n") != "x\ny\nx" {
				t.Errorf("the carve-out holds %q", out)
			}
			b.run(t, 0, "rm", "--discard", j.id)
		case 1, 7, 10:
		default:
			t.Errorf("start ended with %d: %s", code, out)
		}
	}
	stop.Store(true)
	t.Logf("%d starts went through under %d swaps", started, <-swapped)
	if out := b.owner(t, "cat other/id; ls -A other .ssh"); out != secret+".ssh:\nid\n\nother:\nid" {
		t.Errorf("the host's files: %s", out)
	}
}

// TestEscapeByGhosts masks what is not there, uses the session, and looks for traces on
// the host, in the changeset and in what git would take.
func TestEscapeByGhosts(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.owner(t, "cd app; git init -q; echo TRACKED=1 >.env; echo x >f; git add -A; git commit -qm one")
	flags := []string{"--mask", ".env"}
	for _, n := range []string{"a", "b/", "c/d", "c/e/f/", ".aws", "deep/er/still/x", "f.bak", ".claude/settings.json", "x y/z", "é/ü"} {
		flags = append(flags, "--mask", n)
	}
	before := b.owner(t, "find . -not -path '*/.git/*' -printf '%i %m %p %C@\n' | sort")
	i := b.intrude(t, flags...)
	i.sh("git status --short; git add -A; git commit -qm two || true; ls -la; find . >/dev/null; du -s . >/dev/null")
	if after := b.owner(t, "find . -not -path '*/.git/*' -printf '%i %m %p %C@\n' | sort"); after != before {
		t.Errorf("HOME was\n%s\nand is\n%s", before, after)
	}
	b.run(t, 3, "land", "--yes", i.id)
	if out := b.owner(t, "cat app/.env; cd app; git status --short; git log --oneline | wc -l"); out != "TRACKED=1\n1" {
		t.Errorf("after landing nothing the host has %s", out)
	}
	b.run(t, 0, "stop", i.id)
	b.run(t, 0, "resume", i.id)
	b.run(t, 3, "land", "--yes", i.id)
	b.run(t, 0, "rm", i.id) // it has nothing unlanded
}
