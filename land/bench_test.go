package land

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// manyFiles is the size of the changeset that DESIGN §12 sets a goal for.
const manyFiles = 10_000

// busy makes a project of n files of about 4 KiB, of which the session edited all.
func busy(b *testing.B, n int) *box { return busyIn(b, diskDir(b), n) }

func busyIn(b testing.TB, dir string, n int) *box {
	x := newBoxIn(b, dir)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		name := fmt.Sprintf("d%d/e%d/f%d.txt", i%50, i%7, i)
		put(b, filepath.Join(x.project, name), content(rnd), 0o644)
	}
	x.start()
	for i := range n {
		x.write(fmt.Sprintf("d%d/e%d/f%d.txt", i%50, i%7, i), content(rnd))
	}
	return x
}

func content(rnd *rand.Rand) string {
	b := make([]byte, 2048+rnd.IntN(4096))
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz \n"[rnd.IntN(28)]
	}
	return string(b)
}

func BenchmarkDiff(b *testing.B) {
	x := busy(b, manyFiles)
	for b.Loop() {
		x.scan()
	}
}

func BenchmarkLand(b *testing.B) {
	x := busy(b, manyFiles)
	for b.Loop() {
		r := x.mustLand()
		b.StopTimer()
		_, err := x.undo(r.Record.ID)
		x.must(err)
		b.StartTimer()
	}
}

func BenchmarkCapture(b *testing.B) {
	x := newBox(b)
	for i := range 20_000 {
		put(b, filepath.Join(x.project, fmt.Sprintf("d%d/e%d/f%d", i%100, i%13, i)), "x", 0o644)
	}
	b.ResetTimer()
	for b.Loop() {
		x.must(Capture(b.Context(), x.project, x.base, Clock()))
	}
}
