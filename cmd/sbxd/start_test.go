package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/api"
)

func TestEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# a comment\n\nA=1\nB= two words \nC=a=b\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := map[string]string{"MINE": "m", "EMPTY": ""}
	getenv := func(k string) string { return mine[k] }
	got, err := environment(getenv, []string{file}, []string{"MINE", "EMPTY", "NOT_THERE", "A=2", "SET="})
	want := []string{"A=1", "B= two words ", "C=a=b", "MINE=m", "A=2", "SET="}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("environment: %v (-want +got):\n%s", err, d)
	}
}

func TestEnvironmentNeverTellsAValue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("OK=1\nhunter2 is my password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := environment(os.Getenv, []string{file}, nil)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), ":2:") {
		t.Errorf("error = %v, want one that names line 2 and not what it holds", err)
	}
	if got := exitCode(err); got != api.ExitUsage {
		t.Errorf("exit code = %d, want %d", got, api.ExitUsage)
	}
}

func TestNamesOfVariables(t *testing.T) {
	for name, want := range map[string]bool{"A": true, "_a9": true, "": false, "9A": false, "A-B": false, "A B": false, "Ä": false} {
		if got := envName(name); got != want {
			t.Errorf("envName(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestRequestKeepsTheCallersSpelling(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	a := testApp(t)
	empty := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.getenv = func(k string) string {
		return map[string]string{"HOME": "/home/u", "SBXD_CONFIG": empty, "LANG": "C", "TZ": "UTC"}[k]
	}
	o := &startOptions{project: "sub/../app", env: []string{"TZ=CET"}, labels: []string{"thread=7", "k=v=w"}, masks: []string{"~/x", ".env"}}
	got, err := o.request(a)
	want := api.StartRequest{
		Project: filepath.Join(dir, "app"), Home: "/home/u", Network: "off", Env: []string{"LANG=C", "TZ=CET"},
		Labels: map[string]string{"thread": "7", "k": "v=w"}, Masks: []string{"~/x", ".env"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("request: %v (-want +got):\n%s", err, d)
	}
	for _, bad := range []startOptions{{labels: []string{"x"}}, {labels: []string{"=x"}}, {project: "a\x00b"}} {
		if _, err := bad.request(a); exitCode(err) != api.ExitUsage {
			t.Errorf("request of %+v: %v, want a usage error", bad, err)
		}
	}
}
