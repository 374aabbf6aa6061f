package main

import (
	"testing"
	"time"
)

func TestVisibleLeavesNothingThatSteersATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä 文":          "plain ä 文",
		"\x1b[31mred":        `\x1b[31mred`,
		"a\nb\tc\rd":         `a\nb\tc\rd`,
		"bad\xff\xfeutf":     `bad\xff\xfeutf`,
		"c1\u009b2J":         `c1\u009b2J`,
		"rtl\u202egnp.exe":   `rtl\u202egnp.exe`,
		"zero\u200bwidth":    `zero\u200bwidth`,
		"\u2028line":         `\u2028line`,
		"nul\x00 del\x7f":    `nul\x00 del\x7f`,
		"replacement \ufffd": "replacement \ufffd",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := visibleText("a\n\tb\x1b\r\n"), "a\n\tb\\x1b\\r\n"; got != want {
		t.Errorf("visibleText = %q, want %q", got, want)
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", time.Hour - 1: "59m",
		47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := age(now, now.Add(-d)); got != want {
			t.Errorf("age(%v) = %q, want %q", d, got, want)
		}
	}
	if got := age(now, time.Time{}); got != "" {
		t.Errorf("age(zero) = %q, want nothing", got)
	}
}

func TestBytesOf(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 3 << 50: "3072.0 TiB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("bytesOf(%d) = %q, want %q", n, got, want)
		}
	}
}
