//go:build sbxdtest

package feature

import (
	"os"
	"slices"
	"strings"
)

const without = "SBXD_TEST_WITHOUT"

// off reads the environment on each call: a test changes it with t.Setenv.
func off(name string) bool {
	list := strings.FieldsFunc(os.Getenv(without), func(r rune) bool { return r == ',' || r == ' ' })
	return name != "" && (slices.Contains(list, name) || slices.Contains(list, "all"))
}

func carry() []string {
	if list := os.Getenv(without); list != "" {
		return []string{list}
	}
	return nil
}

func accept(args []string) {
	if len(args) == 1 {
		_ = os.Setenv(without, args[0])
	}
}
