package bwrap

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// SpecError says which field of a Spec cannot be used and why.
type SpecError struct {
	Field string
	Value string // what was there, shortened
	Why   string
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("bubblewrap argument %s = %q: %s", e.Field, e.Value, e.Why)
}

// ErrTooManyWords is returned when the arguments exceed MaxWords. Nothing is ever left
// out to make them fit.
var ErrTooManyWords = errors.New("too many arguments for bubblewrap")

// Args checks s and returns the arguments, in the order that gives them their meaning:
// namespaces, privileges, environment, the tree, what bubblewrap lays over it, and the
// read-only remounts last. The error is a *SpecError or ErrTooManyWords.
func Args(s Spec) (Arguments, error) {
	s = withDefaults(s)
	if err := check(s); err != nil {
		return Arguments{}, err
	}
	var o []string
	add := func(words ...string) { o = append(o, words...) }

	// Each by its name: --unshare-all falls back silently for two of them.
	add("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup")
	if s.UnshareNet {
		add("--unshare-net")
	}
	if s.DisableUserns {
		add("--disable-userns")
	}
	add("--cap-drop", "ALL")
	add("--die-with-parent", "--as-pid-1")
	add("--hostname", s.Hostname)
	add("--clearenv")

	add("--bind", s.Root, "/")
	add("--dev", "/dev")
	if !s.NoSize {
		add("--size", strconv.FormatInt(s.ShmSize, 10))
	}
	add("--perms", "1777", "--tmpfs", "/dev/shm")
	add("--proc", "/proc")
	for _, file := range s.Cover {
		add("--ro-bind", "/dev/null", file) // nodev: opening it is refused
	}
	// Neither is recursive. A device can be written through a read-only mount.
	add("--remount-ro", "/dev", "--remount-ro", "/")

	if !s.NoSeccomp {
		add("--seccomp", strconv.Itoa(SeccompFD))
	}
	if s.StatusFD != 0 {
		add("--json-status-fd", strconv.Itoa(s.StatusFD))
	}
	add("--chdir", s.Chdir)

	a := Arguments{Options: o, Argv: slices.Clone(s.Argv), seccomp: !s.NoSeccomp}
	if n := len(a.line()) + len(o); n > MaxWords {
		return Arguments{}, fmt.Errorf("%w: %d words, its limit is %d", ErrTooManyWords, n, MaxWords)
	}
	return a, nil
}

// line returns the command line proper. The payload stands here: bubblewrap ends its
// reading of the --args file at "--" and forgets what follows.
func (a Arguments) line() []string {
	return append([]string{"bwrap", "--args", strconv.Itoa(ArgsFD), "--"}, a.Argv...)
}

// file returns the content of the --args file.
func (a Arguments) file() []byte {
	var b []byte
	for _, word := range a.Options {
		b = append(append(b, word...), 0)
	}
	return b
}

func withDefaults(s Spec) Spec {
	if s.Hostname == "" {
		s.Hostname = DefaultHostname
	}
	if s.ShmSize == 0 {
		s.ShmSize = DefaultShmSize
	}
	if s.Chdir == "" {
		s.Chdir = "/"
	}
	return s
}

func check(s Spec) error {
	if err := checkPath("Root", s.Root); err != nil {
		return err
	}
	if s.Root == "/" {
		return specError("Root", s.Root, "the host's own root is never bound")
	}
	if err := checkPath("Chdir", s.Chdir); err != nil {
		return err
	}
	if err := checkHostname(s.Hostname); err != nil {
		return err
	}
	if s.ShmSize < 0 {
		return specError("ShmSize", strconv.FormatInt(s.ShmSize, 10), "a size is not negative")
	}
	if err := checkStatusFD(s.StatusFD); err != nil {
		return err
	}
	for i, file := range s.Cover {
		field := fmt.Sprintf("Cover[%d]", i)
		if err := checkPath(field, file); err != nil {
			return err
		}
		if path.Dir(file) != "/proc" {
			return specError(field, file, "it is not directly below /proc")
		}
	}
	return checkArgv(s.Argv)
}

func checkArgv(argv []string) error {
	if len(argv) == 0 {
		return specError("Argv", "", "there is no payload")
	}
	if err := checkPath("Argv[0]", argv[0]); err != nil {
		return err
	}
	for i, word := range argv {
		if strings.ContainsRune(word, 0) {
			return specError(fmt.Sprintf("Argv[%d]", i), word, "it contains a NUL byte")
		}
	}
	return nil
}

func checkPath(field, p string) error {
	switch {
	case p == "":
		return specError(field, p, "it is empty")
	case strings.ContainsRune(p, 0):
		return specError(field, p, "it contains a NUL byte")
	case p[0] != '/':
		return specError(field, p, "it is not absolute")
	case slices.Contains(strings.Split(p, "/"), ".."):
		return specError(field, p, `it contains ".."`)
	case path.Clean(p) != p:
		return specError(field, p, "it is not in its shortest form")
	}
	return nil
}

// maxHostname is the kernel's: __NEW_UTS_LEN.
const maxHostname = 64

func checkHostname(name string) error {
	if len(name) > maxHostname {
		return specError("Hostname", name, fmt.Sprintf("it is longer than %d bytes", maxHostname))
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		inner := c == '-' && i > 0 && i < len(name)-1
		if !letter && !inner {
			return specError("Hostname", name, "it is not made of letters, digits and inner dashes")
		}
	}
	return nil
}

func checkStatusFD(fd int) error {
	switch {
	case fd == 0:
		return nil
	case fd < 3:
		return specError("StatusFD", strconv.Itoa(fd), "it is not a descriptor above standard error")
	case fd == ArgsFD || fd == SeccompFD:
		return specError("StatusFD", strconv.Itoa(fd), "this number is used for another descriptor")
	}
	return nil
}

// shownValue bounds what an error repeats of a value, in bytes.
const shownValue = 80

func specError(field, value, why string) error {
	if len(value) > shownValue {
		value = value[:shownValue] + "..."
	}
	return &SpecError{Field: field, Value: value, Why: why}
}
