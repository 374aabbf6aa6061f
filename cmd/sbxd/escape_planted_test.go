package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEscapeByWhatWasPlanted lets the attacker prepare, in a run under a loose policy,
// the places that a later one hides: the resumed session holds them all the same, and a
// landing takes nothing of it to the host.
func TestEscapeByWhatWasPlanted(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{
		"app/conf/secret": secret, "app/d2/key": secret, "app/keys/k": secret, "app/sub/f": secret, "app/gone/f": secret, "work/key": secret,
		"app/deep/er/key": secret, "app/file": secret, "app/plain": "1",
	})
	b.owner(t, "ln -s sub app/link")
	files := "app/conf/secret app/d2/key app/keys/k app/sub/f app/gone/f work/key app/deep/er/key app/file"
	i := b.intrude(t)
	i.sh(`rm -r conf; ln -s /tmp conf
		rm -r d2; mkdir d2; echo mine >d2/key
		rm -r keys; echo mine >keys
		ln -s ../plain newmask
		mkdir -p new/sub
		rm link; mkdir link; echo mine >link/f
		rm -r gone
		rm -r deep; mkdir deep; ln -s /etc deep/er
		rm file; mkdir file; echo mine >file/x
		rm -r ~/work; ln -s app ~/work
		echo 2 >plain`)
	b.run(t, 0, "stop", i.id)
	config := `masks = ["~/app/conf/secret", "~/app/d2/key", "~/app/keys/", "~/app/newmask", "~/app/new/sub/x", "~/app/link/f", "~/app/gone/f", "~/work/key", "~/app/deep/er/key", "~/app/file"]`
	if err := os.WriteFile(filepath.Join(b.dir, "config.toml"), []byte(config+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.run(t, 0, "resume", i.id)
	p := b.project + "/"
	i.holds(p+"d2/key", p+"newmask", p+"new/sub/x", p+"gone/f", p+"file", p+"keys", p+"keys/k", p+"sub/f")
	b.run(t, 0, "land", "--yes", i.id)
	if out := b.owner(t, "cat "+files); out != strings.Repeat(secret, len(strings.Fields(files))) {
		t.Errorf("the host's files are %q", out)
	}
	if out := b.owner(t, "find app | sort; grep -rl mine . || true; cat app/plain"); strings.Contains(out, "newmask") || strings.Contains(out, "link/f") || !strings.HasSuffix(out, "\n2") {
		t.Errorf("the host has\n%s", out)
	}
}
