package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// visible returns s with everything escaped that could steer a terminal or hide what
// is shown: control characters, invalid UTF-8, and the marks that turn the direction
// of text. Names and contents of files are made by agents, so all of them pass here.
func visible(s string) string { return escape(s, "") }

// visibleText is visible for several lines: it leaves newlines and tabs.
func visibleText(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || hidden(r) && !strings.ContainsRune(keep, r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strings.ContainsRune(keep, r) || !hidden(r):
			b.WriteString(s[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// hidden reports whether r prints as something else than itself: controls (C0, C1),
// line separators and the format characters, among them the bidirectional overrides.
func hidden(r rune) bool {
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// printJSON writes v as indented JSON and a newline. encoding/json escapes controls.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table writes aligned columns, a heading first. Each cell is made visible.
func table(w io.Writer, head string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, strings.ReplaceAll(head, " ", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if cell = visible(cell); cell == "" {
				cell = "-"
			}
			if i > 0 {
				cell = "\t" + cell
			}
			_, _ = io.WriteString(t, cell)
		}
		_, _ = fmt.Fprintln(t)
	}
	return t.Flush()
}

// age tells how long ago at was, in its largest unit; "" when it never was.
func age(now, at time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// bytesOf tells n bytes in the largest unit that keeps one digit before the point.
func bytesOf(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < 3; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[i])
}
