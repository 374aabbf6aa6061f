package config

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	File         string // or a flag's name
	Line, Column int    // from 1; 0: the whole file
	Key          string // "network.default", may be empty
	Message      string // what is wrong and what is allowed
}

func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
		if f.Column > 0 {
			fmt.Fprintf(&b, ":%d", f.Column)
		}
	}
	b.WriteString(": ")
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults returns the single faults of an error of Load, in the order of the files.
func Faults(err error) []*Fault {
	var out []*Fault
	var f *Fault
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
	case *Fault:
		return []*Fault{e}
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			out = append(out, Faults(sub)...)
		}
	default:
		if errors.As(err, &f) {
			out = append(out, f)
		}
	}
	return out
}
