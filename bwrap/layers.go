package bwrap

import "github.com/sbxd/sbxd/internal/feature"

// Fit returns s for a bubblewrap with these findings: what it does not know is left out.
// In a test build, layers that are switched off are left out too.
func (s Spec) Fit(f Findings) Spec {
	s.DisableUserns = f.DisableUserns && !feature.Off(feature.UserNSLimit)
	s.NoSize = !f.Size
	s.NoSeccomp = feature.Off(feature.Seccomp)
	return s
}

// Missing names the layers that s does without, for people to read: a session without
// one says so.
func (s Spec) Missing() []string {
	var out []string
	for _, layer := range []struct {
		missing bool
		name    string
	}{
		{s.NoSeccomp, "the seccomp filter"},
		{!s.DisableUserns, "the limit of user namespaces (bubblewrap 0.8)"},
		{s.NoSize, "the bound of /dev/shm (bubblewrap 0.7)"},
	} {
		if layer.missing {
			out = append(out, layer.name)
		}
	}
	return out
}
