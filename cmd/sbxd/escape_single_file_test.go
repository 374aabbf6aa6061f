package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/proc"
)

// followed returns a box, a file outside of every view, and a session that it is shown to.
func followed(t *testing.T) (*box, string, *intruder) {
	t.Helper()
	b := served(t)
	file := filepath.Join(b.dir, "w", "file")
	b.plant(t, map[string]string{file: "v1", filepath.Join(b.dir, "w", "secret"): secret})
	return b, file, b.intrude(t, "--ro", file)
}

// replaced replaces a file as editors do.
func (b *box) replaced(t *testing.T, file, text string) {
	t.Helper()
	b.owner(t, `echo "$2" >"$1.new"; mv "$1.new" "$1"`, file, text)
}

// keeper returns the process that follows the files of a session, or 0.
func (b *box) keeper(t *testing.T, id string) int {
	t.Helper()
	bwrap := b.status(t, id).Pids["bwrap"]
	for _, p := range b.all(t) {
		if p.parent == bwrap && p.line == "sbxd mounter" {
			return p.pid
		}
	}
	return 0
}

// slaves lists where a session's mounts get others from outside.
func (b *box) slaves(t *testing.T, id string) []string {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", b.status(t, id).Pids["guest"]))
	must(t, err)
	var out []string
	for l := range strings.Lines(string(table)) {
		if strings.Contains(l, " master:") || strings.Contains(l, " shared:") {
			out = append(out, strings.Fields(l)[4])
		}
	}
	return slices.Compact(out)
}

// TestEscapeBySingleFiles: what follows a file can neither be seen nor reached from
// inside, nor do mounts come in any other place than the file's.
func TestEscapeBySingleFiles(t *testing.T) {
	t.Parallel()
	b, file, i := followed(t)
	if got := b.slaves(t, i.id); !slices.Equal(got, []string{file}) {
		t.Errorf("mounts may come at %q, want at %q only", got, file)
	}
	if b.keeper(t, i.id) == 0 {
		t.Fatal("nobody follows the file")
	}
	plain := b.run(t, 0, "start", "--project", b.project)
	if got := b.slaves(t, plain); len(got) != 0 {
		t.Errorf("without a single file, mounts may come at %q", got)
	}
	eventually(t, "no mounter stays without a single file", func() bool { return b.keeper(t, plain) == 0 })
	b.run(t, 0, "rm", plain)
	for _, script := range []string{
		`echo x >"$1"`, `chmod 600 "$1"`, `rm -f "$1"`, `mv "$1" "$1.old"`, `mv "${1%/*}" /tmp/moved`, `umount "$1"`, `umount -l "$1"`,
		`mount --bind /etc/passwd "$1"`, `mount -o remount,bind,rw "$1"`, `mount --make-private "$1"`, `unshare -Urm umount -l "$1"`,
		`tr "\0" " " </proc/[0-9]*/cmdline | grep "^sbxd [m]ounter"`, `: >/proc/1/mem`, `ls /proc/1/fd/`,
	} {
		i.refuses(script, file)
	}
	b.replaced(t, file, "v2")
	eventually(t, "the session sees the new file", func() bool { return i.sh(`cat "$1"`, file) == "v2" })
	i.refuses(`echo x >"$1"`, file)
}

// TestEscapeBySwappedSingleFiles swaps the file for a link to a secret, a directory and
// back while the session reads it.
func TestEscapeBySwappedSingleFiles(t *testing.T) {
	t.Parallel()
	b, file, i := followed(t)
	read := b.cmd("exec", i.id, "--", "sh", "-c", `while [ ! -e /tmp/stop ]; do cat "$0" "$0/in" 2>/dev/null; touch /tmp/ready; done`, file)
	var seen strings.Builder
	read.Stdout = &seen
	must(t, read.Start())
	eventually(t, "the reader runs", func() bool { _, code := i.exec("test", "-e", "/tmp/ready"); return code == 0 })
	b.owner(t, `f=$1; d=${f%/*}; cd "$d"; mkdir away; echo "$2" >away/in; ln -s "$d/away" gone
		for n in $(seq 300); do
			ln -s "$d/secret" t; mv -T t "$f"; echo "v$n" >t; mv -T t "$f"
			rm "$f"; mkdir "$f"; cp secret "$f/in"; rm -r "$f"; echo "v$n" >"$f"
			rm "$f"; ln "$d/gone" "$f" 2>/dev/null || ln -s away "$f"; rm "$f"; echo "v$n" >"$f"
		done`, file, secret)
	eventually(t, "the session sees the last file", func() bool { return i.sh(`cat "$1"`, file) == "v300" })
	i.sh("touch /tmp/stop")
	must(t, read.Wait())
	if strings.Contains(seen.String(), secret) || !strings.HasPrefix(seen.String(), "v1") {
		t.Errorf("a command read %.300q", &seen)
	}
}

// TestKilledUnderASingleFile kills each process of a session that follows a file: nothing
// is left, and without the one that follows, the file stays as it is.
func TestKilledUnderASingleFile(t *testing.T) {
	b := served(t)
	before := b.used(t)
	file := filepath.Join(b.dir, "w", "file")
	for _, victim := range []string{"mounter", "daemon", "shim", "bwrap", "guest"} {
		t.Run(victim, func(t *testing.T) {
			b.plant(t, map[string]string{file: "v1"})
			id := b.run(t, 0, "start", "--project", b.project, "--ro", file)
			live := b.status(t, id)
			keeper, err := proc.Of(b.keeper(t, id))
			must(t, err)
			if victim == "mounter" {
				must(t, proc.Kill(keeper, syscall.SIGKILL))
			} else {
				b.killed(t, live, []string{victim})
			}
			lives := victim == "mounter" || victim == "daemon"
			b.endedAs(t, live, lives)
			b.run(t, 0, "sweep")
			b.replaced(t, file, "v2")
			switch {
			case victim == "mounter":
				time.Sleep(200 * time.Millisecond)
				if got := b.run(t, 0, "exec", id, "--", "cat", file); got != "v1" {
					t.Errorf("with nobody to follow it, the file is %q", got)
				}
				b.run(t, 0, "stop", id)
			case !lives:
				must(t, keeper.Wait(patience))
			}
			b.usable(t, id)
			eventually(t, "the session sees the new file", func() bool { return b.run(t, 0, "exec", id, "--", "cat", file) == "v2" })
			b.run(t, 0, "rm", "--discard", id)
			b.noTrace(t, before)
		})
	}
}
