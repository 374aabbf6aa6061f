package session

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSignal is SIGRTMAX (signal(7)).
const maxSignal = 64

// ParseSignal reads a signal as people write it: "INT", "sigint" or "2".
func ParseSignal(s string) (int, error) {
	if n, err := strconv.Atoi(s); err == nil {
		if n < 1 || n > maxSignal {
			return 0, fmt.Errorf("signal %d: signals go from 1 to %d", n, maxSignal)
		}
		return n, nil
	}
	name := strings.ToUpper(s)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return int(sig), nil
	}
	return 0, fmt.Errorf("signal %.20q: not the name of a signal", s)
}

// SignalName is the name of signal n without SIG, or its number where it has none.
func SignalName(n int) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(n)
}
