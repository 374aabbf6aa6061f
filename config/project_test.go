package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/hostpath"
)

func project(t *testing.T, text string) *ProjectDoc {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ProjectFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := ReadProject(dir, "/home/u")
	if err != nil || p == nil {
		t.Fatalf("read the project's file: %v, %v", p, err)
	}
	return p
}

func TestProjectTightens(t *testing.T) {
	p := project(t, "masks = [\".env\", \"~/.x\", \"a/\\\\[id\\\\]/\"]\nread_only = [\"vendor\"]\n[network]\ndefault = \"off\"\n")
	got, err := p.Decode()
	if err != nil {
		t.Fatal(err)
	}
	want := []Path{{p.Dir + "/.env", p.File() + ":1"}, {"/home/u/.x", p.File() + ":1"}, {p.Dir + `/a/\[id\]/`, p.File() + ":1"}}
	if !slices.Equal(got.Masks, want) {
		t.Errorf("masks %v, want %v", got.Masks, want)
	}
	if len(got.ReadOnly) != 1 || got.ReadOnly[0].Text != p.Dir+"/vendor" || got.Network.Default != "off" {
		t.Errorf("read %+v", got)
	}
	spec, err := hostpath.Parse(got.Masks[2].Text, hostpath.Base{})
	if err != nil || spec.Path != p.Dir+"/a/[id]" || !spec.Dir {
		t.Errorf("a literal bracket comes back as %+v, %v", spec, err)
	}
}

func TestProjectCannotLoosen(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"network", "[network]\ndefault = \"open\"", `can only say "off"`},
		{"leave for the network", "[network]\nallow_open = true", "unknown key"},
		{"carve-out", "carves = [\"x\"]", "unknown key"},
		{"agent", "[agents.x]\nseed = []", "unknown key"},
		{"input of the host", "read_only = [\"/etc\"]", "not inside the project"},
		{"the project itself", "read_only = [\"./\"]", "not inside the project"},
		{"input by ..", "read_only = [\"../x\"]", `holds ".."`},
		{"pattern", "read_only = [\"**/.env\"]", "can only be a mask"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := project(t, c.text+"\n").Decode()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ProjectFile) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestProjectFileIsHostile(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if p, err := ReadProject(dir, ""); p != nil || err != nil {
		t.Errorf("no file: %v, %v", p, err)
	}
	file := filepath.Join(dir, ProjectFile)
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadProject(dir, ""); p != nil || err == nil {
		t.Errorf("a link: %v, %v", p, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, make([]byte, maxProjectFile+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadProject(dir, ""); p != nil || err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a large file: %v, %v", p, err)
	}
}

func TestTrust(t *testing.T) {
	store := filepath.Join(t.TempDir(), "trust.json")
	p, other := project(t, "masks = []\n"), project(t, "masks = []\n")
	check := func(p *ProjectDoc, want bool, say string) {
		t.Helper()
		ok, why, err := Trusted(store, p)
		if err != nil || ok != want || !strings.Contains(why, say) {
			t.Errorf("Trusted = %v, %q, %v; want %v, %q", ok, why, err, want, say)
		}
	}
	check(p, false, "not trusted yet; look at it, then run: sbxd trust "+p.Dir)
	for _, d := range []*ProjectDoc{p, other} {
		if err := Trust(store, d); err != nil {
			t.Fatal(err)
		}
	}
	check(p, true, "")
	check(other, true, "")
	if st, err := os.Stat(store); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the store's mode: %v, %v", st.Mode(), err)
	}
	changed := *p
	changed.Digest = strings.Repeat("0", 64)
	check(&changed, false, "was changed")
	moved := *p
	moved.Ino++
	check(&moved, false, "another directory")
	if err := Trust(store, &changed); err != nil {
		t.Fatal(err)
	}
	check(&changed, true, "")
	check(p, false, "was changed")
	if err := os.Chmod(store, 0o666); err != nil {
		t.Fatal(err)
	}
	if ok, _, err := Trusted(store, p); ok || err == nil {
		t.Errorf("a store that others may write: %v, %v", ok, err)
	}
	if err := os.Chmod(store, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, _, err := Trusted(store, p); ok || err == nil {
		t.Errorf("a torn store: %v, %v", ok, err)
	}
}
