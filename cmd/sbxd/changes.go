package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sbxd/sbxd/api"
)

// letters are the first column of a listing, as in git status.
var letters = map[string]string{"add": "A", "modify": "M", "delete": "D", "mode": "m", "rename": "R"}

// printChanges writes one line a change: letter, path, and what else matters.
func printChanges(w io.Writer, list []api.Change) {
	for _, c := range list {
		letter := letters[c.Op]
		if letter == "" {
			letter = "-"
		}
		_, _ = fmt.Fprintf(w, "%s  %s\n", letter, describe(c))
	}
}

// printDropped writes what is in a session and does not land.
func printDropped(w io.Writer, list []api.Change) {
	if len(list) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "\nnot landed:")
	for _, c := range list {
		_, _ = fmt.Fprintf(w, "-  %s: %s\n", visible(c.Path), visible(c.Note))
	}
}

func describe(c api.Change) string {
	path := visible(c.Path)
	if c.Type == "dir" {
		path += "/"
	}
	var more []string
	if c.From != "" {
		more = append(more, "was "+visible(c.From))
	}
	switch {
	case c.Target != "":
		more = append(more, "-> "+visible(c.Target))
	case c.Type != "file" && c.Type != "dir" && c.Type != "":
		more = append(more, c.Type)
	case c.Op == "add" && c.Type == "file":
		more = append(more, bytesOf(c.Size))
	}
	if c.OldMode != "" && c.Mode != "" && c.OldMode != c.Mode {
		more = append(more, c.OldMode+" -> "+c.Mode)
	}
	if c.Note != "" {
		more = append(more, visible(c.Note))
	}
	if len(more) == 0 {
		return path
	}
	return path + "  (" + strings.Join(more, ", ") + ")"
}

// printFindings writes what a person has to look at, with the id that --allow takes.
func printFindings(w io.Writer, list []api.Finding) {
	for _, f := range list {
		_, _ = fmt.Fprintf(w, "!  %s %s: %s [%s] %s\n", f.Kind, visible(f.Path), visible(f.What), visible(f.Rule), visible(f.ID))
	}
}

// entries says how many, in words.
func entries(n int) string {
	if n == 1 {
		return "1 change"
	}
	return fmt.Sprintf("%d changes", n)
}
