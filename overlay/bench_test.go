package overlay_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/sbxd/sbxd/overlay"
)

// BenchmarkChanges decodes 10,000 changed files of 2 KiB in 500 directories.
func BenchmarkChanges(b *testing.B) {
	base, upper := b.TempDir(), b.TempDir()
	text := make([]byte, 2048)
	for i := range 10_000 {
		for n, dir := range []string{base, upper} {
			d := fmt.Sprintf("%s/src/pkg%d/sub%d", dir, i/200, i/20%10)
			text[len(text)-1] = byte(n)
			if err := os.MkdirAll(d, 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(fmt.Sprintf("%s/file%d", d, i), text, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		s, err := decode(b, base, upper, overlay.Options{})
		if err != nil || len(s.Changes) != 10_000 {
			b.Fatal(len(s.Changes), err)
		}
	}
}
