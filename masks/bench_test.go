package masks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// BenchmarkMake plans the usual session: every start of one pays this.
func BenchmarkMake(b *testing.B) {
	home := filepath.Join(testbox.Root(), "home")
	if err := os.MkdirAll(filepath.Join(home, "p"), 0o755); err != nil {
		b.Fatal(err)
	}
	in := input()
	in.Home, in.Project = home, filepath.Join(home, "p")
	for b.Loop() {
		if _, err := Make(in, OS{}); err != nil {
			b.Fatal(err)
		}
	}
}
