package hostpath

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sbxd/sbxd/internal/glob"
)

// Pattern is a pattern that was read: what it means below a directory.
type Pattern struct {
	Root string // absolute, without a pattern
	Glob glob.Pattern
}

// ParsePattern reads s where Parse says ErrPattern. One that begins with "**/" is meant
// below home and, where base has one, the project; any other begins like a path. Braces
// make several.
func ParsePattern(s string, base Base) ([]Pattern, error) {
	fail := func(reason string) ([]Pattern, error) { return nil, &SyntaxError{Text: s, Reason: reason} }
	var roots []string
	rest := s
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return fail("holds a NUL byte, which no path can")
	case len(s) > MaxLen:
		return fail(fmt.Sprintf("is longer than %d bytes", MaxLen))
	case strings.HasPrefix(s, "**/"):
		if base.Home != "" {
			roots = append(roots, base.Home)
		}
		if base.Project != "" && !Within(base.Project, base.Home) {
			roots = append(roots, base.Project)
		}
	case strings.HasPrefix(s, "~/") && base.Home != "":
		roots, rest = []string{base.Home}, s[2:]
	case strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//"):
		root, below := split(s, base)
		roots, rest = []string{root}, below
	case s != "" && s[0] != '~' && s[0] != '$' && s[0] != '/' && base.Project != "":
		roots = []string{base.Project}
	}
	if len(roots) == 0 {
		return fail("is a pattern of unknown place; begin it with **/, ~/ or /")
	}
	list, err := glob.Parse(rest)
	if err != nil {
		return fail(errors.Unwrap(err).Error())
	}
	var out []Pattern
	for _, root := range roots {
		for _, g := range list {
			out = append(out, lengthen(root, g))
		}
	}
	return out, nil
}

// lengthen moves names without a pattern from g to root.
func lengthen(root string, g glob.Pattern) Pattern {
	for len(g) > 1 {
		name, ok := literal(g[0])
		if !ok || strings.IndexByte(name, '\\') >= 0 {
			break
		}
		root, g = strings.TrimSuffix(root, "/")+"/"+name, g[1:]
	}
	if root == "" {
		root = "/"
	}
	return Pattern{Root: root, Glob: g}
}
