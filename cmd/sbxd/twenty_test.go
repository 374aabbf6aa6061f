package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// TestTwentySessions has twenty sessions on one project: started together, used
// together, landed in turn while the others live, stopped together. Nothing fails, every
// file arrives once, and box.clean finds nothing left.
func TestTwentySessions(t *testing.T) {
	b := served(t)
	uid, gid := testbox.AsUser(t)
	for i := range 20 {
		name := filepath.Join(b.project, fmt.Sprintf("own%d", i))
		if err := os.WriteFile(name, []byte("base\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		if err := give(b.project, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	mounts := testbox.MountsBelow("/")
	each := func(do func(i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			wg.Go(func() { errs[i] = do(i) })
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	ids := make([]string, 20)
	each(func(i int) (err error) {
		ids[i], err = b.try("start", "--project", b.project, "--name", fmt.Sprintf("s%d", i))
		return err
	})
	each(func(i int) error {
		// Everybody reads all, changes one file, adds one, and makes the same directory.
		out, err := b.try("exec", ids[i], "--", "sh", "-c",
			`cat own* | sort | uniq -c; echo "$0" >>"own$0"; mkdir -p shared; echo "$0" >"shared/$0"`, fmt.Sprint(i))
		if err == nil && strings.Fields(out)[0] != "20" {
			err = fmt.Errorf("it saw %q", out)
		}
		return err
	})
	for i, id := range ids {
		if _, err := b.try("land", "--yes", id); err != nil {
			t.Fatalf("land session %d: %v", i, err)
		}
	}
	for i := range ids {
		own, err := os.ReadFile(filepath.Join(b.project, fmt.Sprintf("own%d", i)))
		if want := fmt.Sprintf("base\n%d\n", i); err != nil || string(own) != want {
			t.Errorf("own%d = %q, %v, want %q", i, own, err, want)
		}
	}
	if got, err := os.ReadDir(filepath.Join(b.project, "shared")); err != nil || len(got) != 20 {
		t.Errorf("%d files arrived in shared, %v, want 20", len(got), err)
	}
	each(func(i int) error { _, err := b.try("stop", ids[i]); return err })
	each(func(i int) error { _, err := b.try("rm", ids[i]); return err })
	if got, want := len(testbox.MountsBelow("/")), len(mounts); got > want {
		t.Errorf("%d mounts, %d before", got, want)
	}
}

// try runs sbxd; unlike run it may be called beside others, and not only from the test.
func (b *box) try(args ...string) (string, error) {
	cmd := b.cmd(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("sbxd %s: %w: %s", args[0], err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), err
}
