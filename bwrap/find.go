package bwrap

import (
	"os"
	"strings"
)

// places are where bubblewrap is looked for when nothing is configured.
var places = []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"}

// Find returns the path of the configured bubblewrap or, when there is none, of the
// first of the usual places that has one. The error is a *ProbeError: nothing ever runs
// without a bubblewrap.
func Find(configured string) (string, error) {
	in := places
	if configured != "" {
		in = []string{configured}
	}
	for _, p := range in {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", &ProbeError{Program: strings.Join(in, ", "), Reason: Missing, Remedy: install}
}
