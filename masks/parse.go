package masks

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sbxd/sbxd/internal/hostpath"
)

// ErrPattern is in the chain of the error for a rule that holds a glob.
var ErrPattern = hostpath.ErrPattern

// Parse reads a path as people write it and returns the absolute spelling that a
// Rule holds, and KindDir when it ends with a slash. It allows an absolute path,
// "~/…", and, when in.Project is set, a path relative to the project.
func Parse(s string, in Input) (string, Kind, error) {
	spec, err := hostpath.Parse(s, hostpath.Base{
		Home: in.Home, HomeSpelled: in.HomeSpelled,
		Project: in.Project, ProjectSpelled: in.ProjectSpelled,
	})
	if err != nil {
		return "", KindAny, err
	}
	kind := KindAny
	if spec.Dir {
		kind = KindDir
	}
	return spec.Path, kind, nil
}

// RuleError is a rule that is refused.
type RuleError struct {
	Rule   Rule
	Reason string // what is wrong and what to write instead
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("%s %s (%s) %s", e.Rule.Class, oneLine(e.Rule.Text()), e.Rule.From, e.Reason)
}

// because makes the reason of a RuleError; paths in it stay on their line.
func because(format string, a ...any) string {
	for i, v := range a {
		if path, ok := v.(string); ok {
			a[i] = oneLine(path)
		}
	}
	return fmt.Sprintf(format, a...)
}

// oneLine quotes a path that would not stay on its line.
func oneLine(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !strconv.IsPrint(r) }) || !utf8.ValidString(path) {
		return strconv.Quote(path)
	}
	return path
}

func (c Class) String() string {
	switch c {
	case ReadOnlyInput:
		return "read-only path"
	case Mask:
		return "mask"
	case CarveOut:
		return "carve-out"
	case FinalMask:
		return "final mask"
	case RuntimeInput:
		return "runtime input"
	case RuntimeMask:
		return "runtime mask"
	}
	return fmt.Sprintf("class %d", c)
}

func (k Kind) String() string {
	switch k {
	case KindFile:
		return "file"
	case KindDir:
		return "dir"
	}
	return "any"
}

func (o Op) String() string {
	switch o {
	case Cover:
		return "cover"
	case CoverLink:
		return "cover-link"
	case BindRO:
		return "bind-ro"
	case BindRW:
		return "bind-rw"
	case Pin:
		return "pin"
	case ViewRO:
		return "view-ro"
	}
	return fmt.Sprintf("op %d", o)
}
