package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestEscapeFromViewsOfOurOwn runs again, with views of unionfs, the attacks that have to
// do with views.
func TestEscapeFromViewsOfOurOwn(t *testing.T) {
	t.Parallel()
	testbox.Need(t, append([]string{"fuse"}, needSession...)...)
	attacks := []string{
		"ACarveOutThatBecomesALink", "AnOlderPolicy", "DeepDirectories", "FurtherNames", "Ghosts", "LinksAtMasks", "MaskedPaths",
		"MountsOfTheHost", "MovedParents", "Names", "OddPaths", "OverlayMarks", "SingleFiles", "SpecialFiles", "SwappedSingleFiles",
		"TheHostsChanges.*", "TheRuntimeDirectory", "WhatWasPlanted.*",
	}
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.run=^TestEscapeBy("+strings.Join(attacks, "|")+")$")
	cmd.Env = append(os.Environ(), testBackend+"=unionfs")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "\n--- PASS"); n < len(attacks) {
		t.Errorf("%d of %d attacks were made:\n%s", n, len(attacks), out)
	}
}
