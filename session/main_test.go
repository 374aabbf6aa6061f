package session

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

// holdRoot makes the test binary a process that holds a state root until it is killed.
const holdRoot = "SBXD_HOLD_ROOT"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdRoot); path != "" {
		if _, err := openRoot(path, false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	testbox.Main(m)
}
