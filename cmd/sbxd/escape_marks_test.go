package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tryMarks sets on a directory every attribute by which overlayfs means something, as
// the agent would to hide the host's files from the next start, to have them deleted by
// a landing, or to have another directory shown.
func tryMarks(r results, args []string) error {
	for name, value := range map[string]string{
		"opaque": "y", "redirect": args[1], "whiteout": "y", "metacopy": "", "origin": "x", "impure": "y", "nlink": "U+1", "protattr": "i",
	} {
		for _, space := range []string{"user.overlay.", "trusted.overlay."} {
			r.note(space+name, unix.Setxattr(args[0], space+name, []byte(value), 0))
		}
	}
	r.note("whiteout in the project", unix.Mknod(args[0]+"/main.go.x", unix.S_IFCHR|0o600, 0))
	err := unix.Renameat2(unix.AT_FDCWD, args[0]+"/main.go", unix.AT_FDCWD, args[0]+"/main.go.y", unix.RENAME_WHITEOUT)
	r.note("rename with whiteout", err)
	return nil
}

// TestEscapeByOverlayMarks forges what overlayfs keeps in attributes and device nodes:
// nothing disappears, nothing else appears, and nothing is landed as deleted.
func TestEscapeByOverlayMarks(t *testing.T) {
	t.Parallel()
	b := served(t)
	b.plant(t, map[string]string{"app/d/main.go": "package main\n", "app/conf/secret": secret, "app/.keys/id": secret})
	i := b.intrude(t, "--mask", "conf/secret", "--mask", ".keys")
	got := i.try("marks", b.project+"/d", "/conf")
	for name, g := range got {
		if strings.HasPrefix(name, "trusted.") && g != "EPERM" && g != "EOPNOTSUPP" {
			t.Errorf("%s: %s", name, g)
		}
	}
	expect(t, got, map[string]string{"whiteout in the project": "EPERM", "rename with whiteout": "EPERM|EINVAL"})
	check := func() {
		t.Helper()
		if out := i.sh("ls d; cat d/main.go"); out != "main.go\npackage main" {
			t.Errorf("d holds %s", out)
		}
		i.hunt()
	}
	check()
	b.run(t, 0, "stop", i.id)
	b.run(t, 0, "resume", i.id)
	check()
	if out, code := i.sbxd("land", "--yes", i.id); code != 0 && code != 3 {
		t.Errorf("land ended with %d: %s", code, out)
	}
	for _, name := range []string{"d/main.go", "conf/secret", ".keys/id"} {
		if _, err := os.Lstat(filepath.Join(b.project, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"opaque", "redirect", "whiteout"} {
		if _, err := unix.Getxattr(filepath.Join(b.project, "d"), "user.overlay."+name, nil); err == nil {
			t.Errorf("user.overlay.%s is on the host's directory", name)
		}
	}
}
