package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processesNamed lists the processes of the machine that have name in their arguments.
func processesNamed(name string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(name)) {
			found = append(found, fmt.Sprintf("%s: %s", strings.Split(f, "/")[2], bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// TestEscapeByOutliving leaves processes that do all they can to stay: in sessions of
// their own, forked twice, stopped, deaf to signals. They end with the session, however
// that ends, and the daemon's end is none.
func TestEscapeByOutliving(t *testing.T) {
	t.Parallel()
	b := served(t)
	linger := func(i *intruder, name string) {
		i.t.Helper()
		i.sh(`trap '' HUP TERM INT QUIT
			for n in 1 2 3; do (setsid sh -c 'trap "" HUP TERM; exec sleep 5000."$0" '"$1" $n >/dev/null 2>&1 </dev/null &) done
			(setsid sleep "6000.$1" >/dev/null 2>&1 </dev/null & kill -STOP $!)
			(sh -c 'while :; do (sleep "1.$0" &); sleep .05; done' "$1" >/dev/null 2>&1 </dev/null &)`, name)
	}
	for n, end := range []string{"stop", "shim", "bwrap", "guest", "daemon"} {
		name := strconv.Itoa(os.Getpid()) + "77" + strconv.Itoa(n)
		i := b.intrude(t)
		linger(i, name)
		if len(processesNamed(name)) == 0 {
			t.Fatalf("%s: nothing was left behind, so this shows nothing", end)
		}
		switch end {
		case "stop":
			b.run(t, 0, "stop", i.id)
		case "daemon":
			if err := b.end(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if len(processesNamed(name)) == 0 {
				t.Error("the session ended with the daemon")
			}
			if err := b.serve(); err != nil {
				t.Fatal(err)
			}
			i.sh("true")
			b.run(t, 0, "rm", "--discard", i.id)
		default:
			var s struct{ Pids map[string]int }
			if err := json.Unmarshal([]byte(b.run(t, 0, "status", "--json", i.id)), &s); err != nil || s.Pids[end] == 0 {
				t.Fatalf("which process is the %s? %v", end, err)
			}
			if err := unix.Kill(s.Pids[end], unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			i.until("stopped")
		}
		var left []string
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			if left = processesNamed(name); len(left) == 0 {
				break
			}
		}
		if len(left) != 0 {
			t.Errorf("%s: left are %q", end, left)
		}
	}
}
