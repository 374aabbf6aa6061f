package overlaytest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/overlay"
)

// host tests B046: the real tree is changed under an open view. What the session
// touched is the session's; the rest is old or new, never an error of the kind
// that ends a program, never a mixture.
func (s *suite) host(t *testing.T) {
	v := s.newView(t, func(lower string) error {
		return script(lower, `for i in 1 2 3 4 5; do echo base$i >f$i; done; mkdir d; echo x >d/x`)
	})
	v.frozen = false
	read := func() error { return script(v.P, `cat f1 f2 f3 f4 f5 d/x >/dev/null; ls -lR . >/dev/null`) }
	v.check(errors.Join(script(v.P, `echo mine >f1`), read()))
	v.check(script(v.lower, `echo host >f1; echo host >t; mv t f2; rm f3; echo longer-host-content >f4; echo new >f6; rm -r d; mkdir d; echo y >d/y`))
	v.agent(func() error {
		err := content(v.P+"/f1", "mine\n")
		for name, texts := range map[string][]string{
			"f2": {"base2\n", "host\n"}, "f3": {"base3\n", ""}, "f4": {"base4\n", "longer-host-content\n"}, "f5": {"base5\n"},
			"f6": {"new\n", ""}, "d/x": {"x\n", ""}, "d/y": {"y\n", ""},
		} {
			b, e := os.ReadFile(v.P + "/" + name)
			if errors.Is(e, unix.ENOENT) {
				e = nil
			}
			err = errors.Join(err, e, oneOf(name, string(b), texts))
		}
		return errors.Join(err, script(v.P, `ls -l d`), os.WriteFile(v.P+"/d/new", nil, 0o600), os.WriteFile(v.P+"/f2", []byte("both\n"), 0o600))
	})
	v.remount()
	if set := v.changes(overlay.Options{}); list(set) != "add d/new file (was none) 600\nmodify f1 file (was file) 644\nmodify f2 file (was file) 644\n" {
		t.Errorf("changes against the tree as it is now:\n%s", list(set))
	}
	v.consistent(nil)
}

func oneOf(what, got string, texts []string) error {
	for _, w := range texts {
		if got == w {
			return nil
		}
	}
	return fmt.Errorf("%s is %q, want one of %q", what, got, texts)
}
