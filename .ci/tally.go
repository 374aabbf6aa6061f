//go:build ignore

// Command tally reads the lines of `go test -json`, prints the closing line of each
// package, the whole output of each failed test and the reason of each skip, and ends
// with 1 when a test failed or when every test of cmd/sbxd was skipped.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

type event struct{ Action, Package, Test, Output string }

// Longest line that go test may print; a test that dumps more is cut off by Go itself.
const maxLine = 16 << 20

func main() {
	var failed bool
	output := map[string][]string{}
	passed, skipped := map[string]int{}, map[string]int{}
	reasons := map[string]int{}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // a build failure speaks in plain lines
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			fmt.Print(e.Output)
		case "build-fail":
			failed = true
		case "output":
			switch {
			case e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "FAIL\t")):
				fmt.Print(e.Output)
			case e.Output != "FAIL\n" && !strings.HasPrefix(e.Output, "=== "):
				output[key] = append(output[key], e.Output)
			}
		case "pass":
			passed[e.Package]++
			delete(output, key)
		case "skip":
			if e.Test == "" {
				break // a package without tests
			}
			skipped[e.Package]++
			reasons[reason(output[key])]++
			delete(output, key)
		case "fail":
			failed = true
			for _, k := range sorted(output) {
				// A package that ran out of time says so in the output of a test
				// that never ended.
				if k == key || e.Test == "" && strings.HasPrefix(k, key) {
					fmt.Print(strings.Join(output[k], ""))
					delete(output, k)
				}
			}
		}
	}
	if len(passed) == 0 {
		fmt.Println("no package was tested")
		failed = true
	}
	delete(reasons, "")
	for _, r := range sorted(reasons) {
		fmt.Printf("skipped %3d: %s\n", reasons[r], r)
	}
	for p, n := range skipped {
		// The package itself counts as one pass.
		if strings.HasSuffix(p, "/cmd/sbxd") && passed[p] <= 1 && n > 0 {
			fmt.Println("every script was skipped: nothing of the product was tried")
			failed = true
		}
	}
	if err := in.Err(); err != nil {
		fmt.Println("reading the results:", err)
		failed = true
	}
	if failed {
		fmt.Println("FAIL")
		os.Exit(1)
	}
}

// reason returns what a skipped test said last, without its file and line.
func reason(lines []string) string {
	for _, l := range slices.Backward(lines) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "===") {
			if _, after, ok := strings.Cut(l, ".go:"); ok {
				_, l, _ = strings.Cut(after, ": ")
			}
			return l
		}
	}
	return ""
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
