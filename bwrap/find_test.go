package bwrap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bwrap": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Find(dir + "/bwrap"); got != dir+"/bwrap" || err != nil {
		t.Errorf("Find = %q, %v", got, err)
	}
	for _, p := range []string{dir, dir + "/plain", dir + "/nowhere", "/nowhere/bwrap"} {
		_, err := Find(p)
		var pe *ProbeError
		if !errors.As(err, &pe) || pe.Reason != Missing || !strings.Contains(err.Error(), p) || !strings.Contains(err.Error(), "apt-get install") {
			t.Errorf("Find(%s): %v", p, err)
		}
	}
}
