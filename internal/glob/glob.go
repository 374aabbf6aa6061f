// Package glob reads patterns of paths: names with '/' between them, in which '*' stands
// for any bytes of a name, '?' for one, [a-z] and [!a-z] for one of a set, {a,b} for a or
// b, '\' takes the next byte as it is, and a name "**" stands for any number of whole
// names. The one idea is that a pattern is a list of names that is walked along with a
// path, name by name, so it can be asked below any directory.
//
// It is text only: it never looks at a file system.
package glob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pattern is a pattern, name by name; "**" is any number of names. It has at least one
// name, and its last is not "**".
type Pattern []string

// any number of names.
const any = "**"

// Bounds of what one text may come to.
const (
	maxNames  = 256
	maxBraces = 256 // patterns
)

// Parse reads text, which begins below some directory; braces make several patterns of
// it.
func Parse(text string) ([]Pattern, error) {
	list, err := expand(text)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", text, err)
	}
	var out []Pattern
	for _, t := range list {
		p, err := parse(t)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", text, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// ParseAll is Parse for several texts.
func ParseAll(texts []string) ([]Pattern, error) {
	var out []Pattern
	for _, text := range texts {
		list, err := Parse(text)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

func parse(text string) (Pattern, error) {
	var p Pattern
	for name := range strings.SplitSeq(text, "/") {
		switch {
		case name == "", name == any && len(p) > 0 && p[len(p)-1] == any:
			continue
		case name == ".", name == "..":
			return nil, errors.New(`"." and ".." are no names`)
		case name != any && strings.Contains(name, any):
			return nil, errors.New(`"**" stands for whole names only`)
		}
		if _, err := match(name, ""); err != nil {
			return nil, err
		}
		p = append(p, name)
	}
	switch {
	case len(p) == 0:
		return nil, errors.New("it has no name")
	case len(p) > maxNames:
		return nil, fmt.Errorf("it has more than %d names", maxNames)
	case p[len(p)-1] == any:
		p = append(p, "*") // what is in it, not itself
	}
	return p, nil
}

func (p Pattern) String() string { return strings.Join(p, "/") }

// Literal is a pattern for exactly the path of names.
func Literal(names ...string) Pattern {
	p := make(Pattern, len(names))
	for i, n := range names {
		p[i] = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`).Replace(n)
	}
	return p
}

// Below returns what p means below the directory of names: some patterns, none, or whole
// when that directory is matched itself or lies in what is.
func (p Pattern) Below(names ...string) (list []Pattern, whole bool) {
	at := p.add(nil, 0)
	for _, name := range names {
		var next []int
		for _, i := range at {
			switch {
			case p[i] == any:
				next = p.add(next, i)
			case Match(p[i], name) && i+1 == len(p):
				return nil, true
			case Match(p[i], name):
				next = p.add(next, i+1)
			}
		}
		at = next
	}
	for _, i := range at {
		if i == 0 || p[i-1] != any || !slices.Contains(at, i-1) { // else the other says it too
			list = append(list, p[i:])
		}
	}
	return list, false
}

// Matches reports whether the path of names is matched, or lies in what is.
func (p Pattern) Matches(names ...string) bool {
	_, whole := p.Below(names...)
	return whole
}

// add adds a place in p, and those that a "**" of no names leads to.
func (p Pattern) add(at []int, i int) []int {
	if slices.Contains(at, i) {
		return at
	}
	at = append(at, i)
	if p[i] == any {
		at = p.add(at, i+1)
	}
	return at
}

// expand takes the braces apart. One that is escaped is none.
func expand(text string) ([]string, error) {
	open, err := brace(text)
	if err != nil || open < 0 {
		return []string{text}, err
	}
	var out []string
	depth, from := 0, open+1
	for i := open; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '{':
			depth++
		case c == '}' && depth > 1:
			depth--
		case c == ',' && depth == 1, c == '}':
			out = append(out, text[:open]+text[from:i])
			from = i + 1
			if c == '}' {
				return expandAll(out, text[from:])
			}
		}
	}
	return nil, errors.New("a brace does not end")
}

func expandAll(heads []string, tail string) ([]string, error) {
	var out []string
	for _, h := range heads {
		list, err := expand(h + tail)
		if err != nil {
			return nil, err
		}
		if out = append(out, list...); len(out) > maxBraces {
			return nil, fmt.Errorf("its braces make more than %d patterns", maxBraces)
		}
	}
	return out, nil
}

// brace finds the first brace, or -1.
func brace(text string) (int, error) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			return i, nil
		case '}':
			return 0, errors.New("a brace ends that did not begin")
		}
	}
	return -1, nil
}
