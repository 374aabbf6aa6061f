package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestSharedDatabase uses an agent's own directory from two sessions and from the host at
// once, as its command line would with SQLite in WAL mode: one copy, whose locks work, no
// row lost; and a login made inside is there for later sessions.
func TestSharedDatabase(t *testing.T) {
	t.Parallel()
	testbox.Need(t, "sqlite3")
	b := served(t)
	b.plant(t, map[string]string{".codex/auth.json": secret, ".codex/state.db": "the host's"})
	one, two := b.intrude(t, "--agent", "codex"), b.intrude(t, "--agent", "codex")
	if out := one.sh("cat ~/.codex/auth.json"); out != secret {
		t.Errorf("the login that the owner had is %q in the agent's own directory", out)
	}
	one.sh(`cd ~/.codex && rm -f state.db && sqlite3 state.db 'PRAGMA journal_mode=WAL; CREATE TABLE rows(who TEXT, n INTEGER)'`)
	found, err := filepath.Glob(filepath.Join(b.dir, "state", "*", "agents/codex/.codex/state.db")) // root's
	users, err2 := filepath.Glob(filepath.Join(b.dir, "state", "agents/codex/.codex/state.db"))
	if found = append(found, users...); len(found) != 1 {
		t.Fatalf("the database is at %q, %v", found, errors.Join(err, err2))
	}
	db := found[0]

	const rows = 40
	insert := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do sqlite3 -cmd '.timeout 60000' "$1" "INSERT INTO rows VALUES('$2', $i)" || exit 1; i=$((i+1)); done`, rows)
	inside := func(id, who string) *exec.Cmd {
		return b.cmd("exec", id, "--", "sh", "-c", insert, "sh", b.home+"/.codex/state.db", who)
	}
	host := exec.Command(filepath.Join(b.dir, "bin", "owner"), "sh", "-c", insert, "sh", db, "host")
	writers := []*exec.Cmd{inside(one.id, "one"), inside(two.id, "two"), host}
	outs := make([]strings.Builder, len(writers))
	for n, w := range writers {
		w.Stdout, w.Stderr = &outs[n], &outs[n]
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for n, w := range writers {
		if err := w.Wait(); err != nil {
			t.Errorf("a writer: %v: %s", err, &outs[n])
		}
	}
	count := `sqlite3 ~/.codex/state.db 'SELECT who, count(*), sum(n) FROM rows GROUP BY who ORDER BY who; PRAGMA integrity_check'`
	want := fmt.Sprintf("host|%d|%d\none|%[1]d|%[2]d\ntwo|%[1]d|%[2]d\nok", rows, rows*(rows-1)/2)
	for _, i := range []*intruder{one, two} {
		if out := i.sh(count); out != want {
			t.Errorf("the database holds\n%s\nwant\n%s", out, want)
		}
	}

	// A lock that one session has holds in the other.
	lock := b.cmd("exec", one.id, "--", "sh", "-c", `(echo 'BEGIN EXCLUSIVE;'; echo '.shell touch locked'; cat) | sqlite3 ~/.codex/state.db`)
	end, err := lock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Start(); err != nil {
		t.Fatal(err)
	}
	one.sh("n=0; while [ ! -e locked ] && [ $n -lt 600 ]; do sleep .05; n=$((n+1)); done; test -e locked")
	if out, code := two.exec("sqlite3", b.home+"/.codex/state.db", "INSERT INTO rows VALUES('x', 1)"); code == 0 || !strings.Contains(out, "locked") {
		t.Errorf("a locked database took a row: %d %s", code, out)
	}
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Wait(); err != nil {
		t.Error(err)
	}
	two.sh(`sqlite3 -cmd '.timeout 60000' ~/.codex/state.db "DELETE FROM rows WHERE who='x'; INSERT INTO rows VALUES('x', 1); DELETE FROM rows WHERE who='x'"`)

	one.sh("echo login-made-inside >~/.codex/auth.json.tmp && mv ~/.codex/auth.json.tmp ~/.codex/auth.json")
	if out := two.sh("cat ~/.codex/auth.json"); out != "login-made-inside" {
		t.Errorf("the other session has the login %q", out)
	}
	for _, i := range []*intruder{one, two} {
		b.run(t, 0, "rm", "--discard", i.id)
	}
	three := b.intrude(t, "--agent", "codex")
	if out := three.sh("cat ~/.codex/auth.json; " + count); out != "login-made-inside\n"+want {
		t.Errorf("a later session has %s", out)
	}
	if out := b.owner(t, "cat .codex/auth.json .codex/state.db; ls -A .codex"); out != secret+"the host'sauth.json\nstate.db" {
		t.Errorf("the owner's own directory: %s", out)
	}
}
