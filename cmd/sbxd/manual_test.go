package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

//go:generate go test -run ^TestManualIsWhatHelpSays$ -update .

var update = flag.Bool("update", false, "rewrite golden files and docs/cli.md")

const (
	manual     = "../../docs/cli.md"
	beginHelps = "<!-- begin: written by `make gen` -->\n"
	endHelps   = "<!-- end -->\n"
)

func TestManualIsWhatHelpSays(t *testing.T) {
	old, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(old), beginHelps)
	_, tail, ok2 := strings.Cut(rest, endHelps)
	if !ok || !ok2 {
		t.Fatalf("%s has lost its markers", manual)
	}
	want := head + beginHelps + helps(t) + endHelps + tail
	if *update {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(old)); d != "" {
		t.Errorf("%s is not what the help texts say; run make gen (-want +got):\n%s", manual, d)
	}
}

// helps returns the help text of each command, in order.
func helps(t *testing.T) string {
	var b strings.Builder
	eachCommand(newRoot(testApp(t)), func(c *cobra.Command) {
		if !c.HasParent() {
			return
		}
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if i := strings.Index(text, "\nGlobal Flags:"); i >= 0 {
			_, after, _ := strings.Cut(text[i:], "\n\n")
			text = text[:i] + "\n" + after
		}
		fmt.Fprintf(&b, "\n### %s\n\n```text\n%s\n```\n", c.CommandPath(), strings.TrimSpace(text))
	})
	return b.String() + "\n"
}

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			eachCommand(sub, f)
		}
	}
}

func testApp(t *testing.T) *app {
	return &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: func(string) string { return "" }}
}

func TestEveryHelpEndsWithExitStatus(t *testing.T) {
	eachCommand(newRoot(testApp(t)), func(c *cobra.Command) {
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		_, after, ok := strings.Cut(out.String(), "\nEXIT STATUS\n")
		if !ok || strings.Contains(strings.TrimSpace(after), "\n\n") {
			t.Errorf("the help of %q does not end with EXIT STATUS", c.CommandPath())
		}
		for l := range strings.Lines(out.String()) {
			if len(l) > 121 {
				t.Errorf("the help of %q has a line of %d characters: %s", c.CommandPath(), len(l), l)
			}
		}
	})
}

func TestManualPromisesTheExitCodes(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, row := range codes {
		if seen[row.code] {
			t.Errorf("code %d stands twice in the table", row.code)
		}
		seen[row.code] = true
		if want := fmt.Sprintf("| %d | %s |\n", row.code, row.means); !strings.Contains(string(text), want) {
			t.Errorf("%s lacks the row %q", manual, want)
		}
	}
}

func TestCommandsAreMadeUnderTheirNames(t *testing.T) {
	for _, c := range commands {
		root := newRoot(testApp(t), c.name)
		var got []string
		for _, sub := range root.Commands() {
			got = append(got, sub.Name())
		}
		if d := cmp.Diff([]string{c.name}, got); d != "" {
			t.Errorf("the command line for %q (-want +got):\n%s", c.name, d)
		}
	}
}
