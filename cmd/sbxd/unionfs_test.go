package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestEscapeFromViewsOfOurOwn makes the attacks that have to do with views again, on views
// of unionfs.
func TestEscapeFromViewsOfOurOwn(t *testing.T) {
	t.Parallel()
	attacks := []string{
		"ACarveOutThatBecomesALink", "AnOlderPolicy", "DeepDirectories", "FurtherNames", "Ghosts", "LinksAtMasks", "MaskedPaths",
		"MountsOfTheHost", "MovedParents", "Names", "OddPaths", "OverlayMarks", "SingleFiles", "SpecialFiles", "SwappedSingleFiles",
		"TheHostsChanges.*", "TheRuntimeDirectory", "WhatWasPlanted.*",
	}
	onUnionfs(t, "^TestEscapeBy("+strings.Join(attacks, "|")+")$", len(attacks))
}

// TestCasesOnViewsOfOurOwn runs the cases again, on views of unionfs.
func TestCasesOnViewsOfOurOwn(t *testing.T) {
	onUnionfs(t, "^TestCases$", 50)
}

// onUnionfs runs tests of this binary with sessions whose views are unionfs. At least so
// many have to run.
func onUnionfs(t *testing.T, run string, fewest int) {
	t.Helper()
	testbox.Need(t, append([]string{"fuse"}, needSession...)...)
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.run="+run)
	cmd.Env = append(os.Environ(), testBackend+"=unionfs")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := len(passed.FindAll(out, -1)); n < fewest {
		t.Errorf("%d tests of at least %d passed:\n%s", n, fewest, out)
	}
}

var passed = regexp.MustCompile(`(?m)^ *--- PASS`)
