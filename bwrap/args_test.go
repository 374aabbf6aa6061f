package bwrap

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Spec {
	return Spec{
		Root: "/tmp/root", DisableUserns: true, StatusFD: 5, Cover: []string{"/proc/keys"},
		Argv: []string{"/run/sbxbin/sbxd", "guest", "4"},
	}
}

// listing puts an option and its values on one line, for a reader of the golden file.
func listing(a Arguments) string {
	var b strings.Builder
	b.WriteString("# command line\n" + strings.Join(a.line(), " ") + "\n# --args file\n")
	for i, word := range a.Options {
		switch {
		case i == 0:
		case strings.HasPrefix(word, "--"):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}

func TestArgsGolden(t *testing.T) {
	bare := Spec{Root: "/r", Argv: []string{"/bin/true"}, UnshareNet: true, NoSeccomp: true, NoSize: true, Hostname: "a-b", Chdir: "/work"}
	for name, s := range map[string]Spec{"args_session.golden": sample(), "args_bare.golden": bare} {
		a, err := Args(s)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, listing(a))
	}
}

// What a caller may fill with anything stays behind "--" and is passed as it is.
func TestArgsKeepsThePayloadApart(t *testing.T) {
	s := sample()
	s.Argv = []string{"/p", "--bind", "/", "/", "--", "", "a b\nc", "\xff"}
	a, err := Args(s)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Args(sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain.Options, a.Options); diff != "" {
		t.Errorf("the payload changed the options (-without +with):\n%s", diff)
	}
	want := append([]string{"bwrap", "--args", "198", "--"}, s.Argv...)
	if diff := cmp.Diff(want, a.line()); diff != "" {
		t.Errorf("command line (-want +got):\n%s", diff)
	}
	s.Argv[0] = "/changed"
	if a.Argv[0] != "/p" {
		t.Error("Args kept the caller's slice")
	}
}

func TestArgsFileIsNULTerminated(t *testing.T) {
	if got, want := string(Arguments{Options: []string{"--dev", "/dev"}}.file()), "--dev\x00/dev\x00"; got != want {
		t.Errorf("file() = %q, want %q", got, want)
	}
}

func TestArgsRefuses(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tc := range []struct {
		name  string
		set   func(*Spec)
		field string
	}{
		{"no root", func(s *Spec) { s.Root = "" }, "Root"},
		{"relative root", func(s *Spec) { s.Root = "tmp/root" }, "Root"},
		{"host root", func(s *Spec) { s.Root = "/" }, "Root"},
		{"double slash", func(s *Spec) { s.Root = "//" }, "Root"},
		{"root above", func(s *Spec) { s.Root = "/tmp/../.." }, "Root"},
		{"root with a dot", func(s *Spec) { s.Root = "/tmp/./root" }, "Root"},
		{"trailing slash", func(s *Spec) { s.Root = "/tmp/root/" }, "Root"},
		{"NUL in the root", func(s *Spec) { s.Root = "/tmp\x00--bind" }, "Root"},
		{"option as root", func(s *Spec) { s.Root = "--bind" }, "Root"},
		{"relative directory", func(s *Spec) { s.Chdir = "work" }, "Chdir"},
		{"directory above", func(s *Spec) { s.Chdir = "/.." }, "Chdir"},
		{"NUL in the directory", func(s *Spec) { s.Chdir = "/a\x00" }, "Chdir"},
		{"host name with a dash first", func(s *Spec) { s.Hostname = "--bind" }, "Hostname"},
		{"host name with a dot", func(s *Spec) { s.Hostname = "a.b" }, "Hostname"},
		{"host name with a NUL", func(s *Spec) { s.Hostname = "a\x00b" }, "Hostname"},
		{"long host name", func(s *Spec) { s.Hostname = long }, "Hostname"},
		{"negative size", func(s *Spec) { s.ShmSize = -1 }, "ShmSize"},
		{"status on standard error", func(s *Spec) { s.StatusFD = 2 }, "StatusFD"},
		{"negative status", func(s *Spec) { s.StatusFD = -1 }, "StatusFD"},
		{"status on the args file", func(s *Spec) { s.StatusFD = ArgsFD }, "StatusFD"},
		{"cover outside of proc", func(s *Spec) { s.Cover = []string{"/proc/keys", "/etc/passwd"} }, "Cover[1]"},
		{"cover deeper", func(s *Spec) { s.Cover = []string{"/proc/sys/kernel"} }, "Cover[0]"},
		{"cover above", func(s *Spec) { s.Cover = []string{"/proc/../etc"} }, "Cover[0]"},
		{"cover of nothing", func(s *Spec) { s.Cover = []string{""} }, "Cover[0]"},
		{"no payload", func(s *Spec) { s.Argv = nil }, "Argv"},
		{"empty payload", func(s *Spec) { s.Argv = []string{""} }, "Argv[0]"},
		{"payload by name", func(s *Spec) { s.Argv = []string{"sh"} }, "Argv[0]"},
		{"option as payload", func(s *Spec) { s.Argv = []string{"--bind"} }, "Argv[0]"},
		{"NUL in an argument", func(s *Spec) { s.Argv = []string{"/p", "a\x00b"} }, "Argv[1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := sample()
			tc.set(&s)
			a, err := Args(s)
			got, ok := errors.AsType[*SpecError](err)
			if !ok || got.Field != tc.field {
				t.Fatalf("Args = %v, %v; want a SpecError about %s", a, err, tc.field)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error repeats %d bytes", len(err.Error()))
			}
		})
	}
}

func TestArgsNeverLeavesWordsOut(t *testing.T) {
	s := sample()
	a, err := Args(s)
	if err != nil {
		t.Fatal(err)
	}
	for range MaxWords - len(a.Options) - len(a.line()) {
		s.Argv = append(s.Argv, "x")
	}
	if a, err = Args(s); err != nil || len(a.Argv) != len(s.Argv) {
		t.Errorf("%d words: %v, want all of them", MaxWords, err)
	}
	s.Argv = append(s.Argv, "x")
	if _, err := Args(s); !errors.Is(err, ErrTooManyWords) {
		t.Errorf("%d words: %v, want ErrTooManyWords", MaxWords+1, err)
	}
}
