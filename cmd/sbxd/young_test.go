package main

import (
	"fmt"
	"testing"
)

// TestWhatIsWrittenJustBeforeAStartIsTheBase: what the host wrote within a tick of its clock
// before a start is no conflict when the session changes it.
func TestWhatIsWrittenJustBeforeAStartIsTheBase(t *testing.T) {
	t.Parallel()
	b := served(t)
	for i := range 10 {
		name := fmt.Sprint("young", i)
		b.owner(t, "echo host >app/"+name)
		id := b.run(t, 0, "start", "--project", b.project)
		b.run(t, 0, "exec", id, "--", "sh", "-c", "echo mine >>"+name)
		b.run(t, 0, "land", "--yes", id)
		b.run(t, 0, "rm", id)
	}
}
