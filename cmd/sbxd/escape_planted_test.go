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

// TestEscapeByWhatWasPlantedAtInputs prepares the places where later sessions get inputs:
// in its own view, and in the agent's own directory, which lasts. They start all the
// same, and nothing is mounted or written where a link leads.
func TestEscapeByWhatWasPlantedAtInputs(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"share/in/x": "x", "data/x": "x", "file": "f", "victim/v": "v", ".bashrc": "rc", ".codex/auth.json": secret})
	i := b.intrude(t)
	i.sh("rm -r ~/share ~/data ~/file; ln -s /tmp ~/share; echo x >~/data; ln -s victim/v ~/file")
	b.run(t, 0, "stop", i.id)
	for _, rule := range []string{"read_only", "carves"} {
		for _, path := range []string{"~/share/in", "~/data", "~/file"} {
			if err := os.WriteFile(filepath.Join(b.dir, "config.toml"), []byte(rule+" = [\""+path+"\"]\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, code := b.sbxd("resume", i.id); code != 0 {
				t.Errorf("%s %s: resume ended with %d: %s", rule, path, code, out)
			}
			i.sh("true")
			b.run(t, 0, "stop", i.id)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "config.toml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	j := b.intrude(t, "--agent", "codex")
	j.sh(`cd ~/.codex; rm auth.json; ln -s "$HOME/.bashrc" auth.json; ln -s "$HOME/victim" prompts; mkdir AGENTS.md; ln -s "$HOME/victim/new" config.toml`)
	b.plant(t, map[string]string{".codex/prompts/p": "p", ".codex/AGENTS.md": "md", ".codex/config.toml": "c"})
	for range 2 {
		k := b.intrude(t, "--agent", "codex")
		k.hunt()
		k.sh("echo mine >~/.codex/prompts/mine; echo mine >~/.codex/auth.json; true")
	}
	if out := b.owner(t, "cat .bashrc; ls -A victim"); out != "rcv" {
		t.Errorf("on the host: %s", out)
	}
}
