//go:build sbxdtest

package feature

import (
	"os"
	"slices"
	"strings"
)

// off reads the environment on each call: a test changes it with t.Setenv.
func off(name string) bool {
	list := strings.FieldsFunc(os.Getenv("SBXD_TEST_WITHOUT"), func(r rune) bool { return r == ',' || r == ' ' })
	return name != "" && (slices.Contains(list, name) || slices.Contains(list, "all"))
}
