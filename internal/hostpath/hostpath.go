// Package hostpath reads a path the way people write it in a flag or a
// configuration file and returns the one absolute spelling that the rest of the
// program compares. Whatever could be read in two ways is refused by name, because
// a rule that silently means another path protects nothing.
//
// It is text only: it never looks at a file system, and knows nothing of rules.
package hostpath

import (
	"errors"
	"fmt"
	"strings"
)

// MaxLen bounds a path, in bytes; PATH_MAX is far below, but descriptors reach
// deeper trees piece by piece.
const MaxLen = 32 << 10

// MaxName bounds one component, in bytes (NAME_MAX).
const MaxName = 255

// ErrPattern is in the chain of the error for a path that holds a glob: ParsePattern
// reads it, where one is meant.
var ErrPattern = errors.New("a pattern can only be a mask")

// Base is what a path may be written against. The zero value allows absolute
// paths only.
type Base struct {
	Home, HomeSpelled       string // "~"; empty: "~" is refused
	Project, ProjectSpelled string // relative paths; empty: they are refused
}

// Spec is a path that was read.
type Spec struct {
	Path string // absolute, no "." or "..", no empty or trailing component
	Dir  bool   // it was written with a trailing slash
}

// SyntaxError says what is wrong with a path and what to write instead.
type SyntaxError struct {
	Text   string // as written
	Reason string
	Err    error // ErrPattern or nil
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("path %q: %s", shorten(e.Text), e.Reason)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// Parse reads s. Allowed are an absolute path, "~" and "~/…", and, when base has a
// project, a path relative to it. The characters * ? [ ] { } are patterns unless a
// backslash stands before them or they belong to the spelled home or project; any
// other byte but NUL stands for itself.
func Parse(s string, base Base) (Spec, error) {
	fail := func(reason string) (Spec, error) { return Spec{}, &SyntaxError{Text: s, Reason: reason} }
	switch {
	case s == "":
		return fail("is empty; write an absolute path or ~/…")
	case strings.IndexByte(s, 0) >= 0:
		return fail("holds a NUL byte, which no path can")
	case len(s) > MaxLen:
		return fail(fmt.Sprintf("is longer than %d bytes", MaxLen))
	case strings.HasPrefix(s, "//"):
		return fail("starts with //, which other tools read in other ways; write one slash")
	case s == "~" || strings.HasPrefix(s, "~/"):
		if base.Home == "" {
			return fail("uses ~, but there is no home directory here; write an absolute path")
		}
		return finish(s, base.Home, s[1:])
	case s[0] == '~':
		return fail("~user is not expanded; write an absolute path")
	case s[0] == '$':
		return fail("variables are not expanded; write ~/… or an absolute path")
	case s[0] == '/':
		root, rest := split(s, base)
		return finish(s, root, rest)
	case base.Project == "":
		if _, ok := literal(s); !ok {
			return pattern(s)
		}
		return fail("is relative; write an absolute path or ~/…")
	default:
		return finish(s, base.Project, "/"+s)
	}
}

// split takes the longest known root off an absolute path, canonical in place of
// spelled. The root is literal: its bytes are never a pattern.
func split(s string, base Base) (root, rest string) {
	long := 0
	rest = s
	for _, r := range [][2]string{
		{base.Home, base.Home},
		{base.HomeSpelled, base.Home},
		{base.Project, base.Project},
		{base.ProjectSpelled, base.Project},
	} {
		spelled, real := r[0], r[1]
		if len(spelled) > long && spelled != "/" && Within(s, spelled) {
			long, root, rest = len(spelled), real, s[len(spelled):]
		}
	}
	return root, rest
}

// finish cleans rest, refuses what is ambiguous in it, and puts it below root.
func finish(s, root, rest string) (Spec, error) {
	var parts []string
	for c := range strings.SplitSeq(rest, "/") {
		switch c {
		case "", ".":
			continue
		case "..":
			return Spec{}, &SyntaxError{Text: s, Reason: `holds "..", which a link can turn elsewhere; write the path without it`}
		}
		lit, ok := literal(c)
		if !ok {
			return pattern(s)
		}
		if len(lit) > MaxName {
			return Spec{}, &SyntaxError{Text: s, Reason: fmt.Sprintf("has a name longer than %d bytes, which no file can have", MaxName)}
		}
		parts = append(parts, lit)
	}
	p := strings.TrimSuffix(root, "/")
	if len(parts) > 0 {
		p += "/" + strings.Join(parts, "/")
	}
	if p == "" {
		return Spec{}, &SyntaxError{Text: s, Reason: "is the root directory; name something below it"}
	}
	return Spec{Path: p, Dir: strings.HasSuffix(rest, "/") || strings.HasSuffix(rest, "/.")}, nil
}

func pattern(s string) (Spec, error) {
	return Spec{}, &SyntaxError{
		Text:   s,
		Reason: ErrPattern.Error() + `; name paths or a directory, or write \ before a literal * ? [ ] { }`,
		Err:    ErrPattern,
	}
}

const meta = "*?[]{}"

// literal takes the escapes out of one component. It reports false when an
// unescaped meta character is left.
func literal(c string) (string, bool) {
	if !strings.ContainsAny(c, meta) {
		return c, true
	}
	var b strings.Builder
	for i := 0; i < len(c); i++ {
		switch {
		case c[i] == '\\' && i+1 < len(c) && strings.IndexByte(meta, c[i+1]) >= 0:
			i++
			b.WriteByte(c[i])
		case strings.IndexByte(meta, c[i]) >= 0:
			return "", false
		default:
			b.WriteByte(c[i])
		}
	}
	return b.String(), true
}

// Within reports whether p is root or lies below it, both absolute and clean.
func Within(p, root string) bool {
	if root == "/" {
		return strings.HasPrefix(p, "/")
	}
	return strings.HasPrefix(p, root) && (len(p) == len(root) || p[len(root)] == '/')
}

// Below reports whether p lies below root and is not root itself.
func Below(p, root string) bool { return p != root && Within(p, root) }

// Rel returns p relative to root, which must contain it; root itself is ".".
func Rel(p, root string) string {
	if p == root {
		return "."
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, root), "/")
}

// shorten keeps an error message on one screen.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most/2] + "…" + s[len(s)-most/2:]
}
