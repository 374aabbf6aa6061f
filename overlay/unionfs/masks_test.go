package unionfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/glob"
)

func hidesPath(m *Masks, path string) bool {
	s := m.start()
	names := strings.Split(path, "/")
	for _, n := range names {
		if m.hides(s, n) {
			return true
		}
		s = m.step(s, n)
	}
	return false
}

func TestMasksMatch(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no string
	}{
		{"**/.env", ".env a/.env a/b/.env .env/x", "env .envrc a/x.env"},
		{"**/*.pem", "a.pem b/.pem a/b/c.pem", "pem a.pem.txt"},
		{".config/*/token*", ".config/gh/token .config/gh/tokens", ".config/token x/.config/gh/token .config/a/b/token"},
		{"a/**/z", "a/z a/b/z a/b/c/z", "z b/z a/zz"},
		{"dir/**", "dir/x dir/x/y", "dir dirx"},
		{"**/k[0-9x].?", "k0.a b/kx.b", "ky.a k0.ab"},
		{"**/[!a-c]x", "dx", "ax bx"},
		{`lit\*`, "lit*", "lita"},
		{"**/**/q", "q a/q", "qq"},
		{"*a*a*a*a*b", strings.Repeat("a", 200) + "b", strings.Repeat("a", 255)},
	} {
		m, err := compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range strings.Fields(c.yes) {
			if !hidesPath(m, p) {
				t.Errorf("%q does not hide %q", c.pattern, p)
			}
		}
		for _, p := range strings.Fields(c.no) {
			if hidesPath(m, p) {
				t.Errorf("%q hides %q", c.pattern, p)
			}
		}
	}
}

func compile(patterns ...string) (*Masks, error) {
	list, err := glob.ParseAll(patterns)
	if err != nil {
		return nil, err
	}
	return CompileMasks(list, nil)
}

var secrets = []string{"**/.env", "**/*.pem", "conf/*/token*"}

// Whoever is inside tries to get at a masked name in every way.
func TestMaskedNamesCannotBeReachedFromInside(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{Masks: secrets}, `mkdir -p conf/gh sub; echo S3CRET | tee .env sub/.env sub/k.pem conf/gh/token >/dev/null; echo ok >plain; mkdir dir.pem; echo S3CRET >dir.pem/in`)
	v.masked = true
	for _, p := range []string{".env", "sub/.env", "sub/k.pem", "conf/gh/token", "dir.pem", "dir.pem/in"} {
		if _, err := os.Lstat(v.P + "/" + p); !errors.Is(err, unix.ENOENT) {
			t.Errorf("stat of %s: %v, want ENOENT", p, err)
		}
		v.fails("cat " + p)
		v.fails("rm " + p)
		v.fails("mv " + p + " away")
		v.fails("ln " + p + " alias")
		v.fails("chmod 777 " + p)
	}
	for _, p := range []string{".env", "new.pem", "sub/.env", "conf/new/token"} {
		v.sh("mkdir -p " + filepath.Dir(p))
		v.fails("echo x >" + p)
		v.fails("mkdir " + p)
		v.fails("ln -s plain " + p)
		v.fails("ln plain " + p)
		v.fails("mkfifo " + p)
		v.fails("cp plain " + p)
		v.fails("mv plain " + p)
	}
	v.fails(`mkdir out; echo x >out/token; mkdir -p conf; mv out conf/out`) // would hide what is in it, or worse
	v.sh(`test ! -e conf/out || test ! -e conf/out/token; cat plain`)
	v.fails(`rmdir dir.pem`)
	v.fails(`rm -rf sub && test ! -e sub`)
	v.fails(`mv conf gone 2>/dev/null && cat gone/gh/token`)
	if got := v.names(v.P + "/sub"); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
	for _, at := range []string{"", "/sub", "/conf/gh"} {
		for _, n := range v.names(v.P + at) {
			if strings.HasSuffix(n, ".pem") || n == ".env" || n == "token" {
				t.Errorf("%s is listed in %q", n, at)
			}
		}
	}
	if b, err := os.ReadFile(v.lower + "/.env"); err != nil || string(b) != "S3CRET\n" {
		t.Errorf("the real one: %q, %v", b, err)
	}
}

// The host creates, renames, links and checks out into masked names: from then on
// the file is unreadable inside, also under a name that it had before.
func TestMaskedNamesAppearOnTheHost(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{Masks: secrets}, `mkdir d; echo S3CRET >d/a; echo S3CRET >d/b; echo S3CRET >d/c; echo x >d/x`)
	v.live, v.masked = true, true
	v.sh(`cat d/a d/b d/c; ls -la d; ! test -e d/.env`)
	v.check(sh(v.lower, `echo S3CRET >d/.env; mv d/a d/a.pem; ln d/b d/b.pem; echo S3CRET >.env`))
	v.eventually("a created file is hidden", absent(v.P+"/d/.env"))
	v.eventually("a renamed file is hidden by its new name", absent(v.P+"/d/a.pem"))
	v.eventually("and gone by its old one", absent(v.P+"/d/a"))
	v.eventually("a linked file is hidden by its old name too", func() bool {
		b, err := os.ReadFile(v.P + "/d/b")
		return err != nil && len(b) == 0
	})
	v.fails(`grep -r S3CRET d/a d/b d/.env .env d/a.pem d/b.pem`)
	v.sh(`test "$(ls -A d | tr '\n' ' ')" != ""; cat d/x d/c`)
}

// A hard link of a masked file of the lower is hidden.
func TestMaskedFileUnderAnotherName(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{Masks: secrets}, `echo S3CRET >.env; ln .env innocent`)
	v.masked = true
	_ = v.names(v.P)
	v.remount()
	v.sh(`ls -la . >/dev/null`)
	v.eventually("the other name is unreadable", func() bool {
		b, _ := os.ReadFile(v.P + "/innocent")
		return len(b) == 0
	})
}

// Nobody lists the directory of the masked name: the search finds it.
func TestMaskedFileUnderAnotherNameIsSearched(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{Masks: secrets}, `mkdir -p a/b k.pem/in; echo S3CRET >a/b/.env; ln a/b/.env innocent; echo S3CRET >k.pem/in/x; ln k.pem/in/x plain; echo ok >one; ln one two`)
	v.masked = true
	for _, name := range []string{"innocent", "plain"} {
		v.eventually(name+" is unreadable", func() bool {
			_, err := os.ReadFile(v.P + "/" + name)
			return err != nil
		})
	}
	v.sh(`cat one two`)
}

// Masks hold for what is in the upper from an earlier run without them.
func TestMasksHideWhatTheUpperHas(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir d`)
	v.masked = true
	v.sh(`echo mine >.env; echo mine >d/x.pem; echo fine >d/y`)
	v.unmount()
	v.a.stage.Masks = secrets
	v.mount()
	v.fails(`cat .env`)
	v.fails(`rm -r d`)
	v.fails(`mv d e && cat e/x.pem`)
	if got := fmt.Sprint(v.names(v.P+"/d"), v.names(v.P)); !strings.HasPrefix(got, "[] [") && !strings.HasPrefix(got, "[y]") {
		t.Errorf("listed: %s", got)
	}
}
