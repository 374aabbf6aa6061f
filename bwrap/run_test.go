package bwrap

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
)

// outcome is what a finished sandbox left.
type outcome struct {
	code   int
	stdout []byte
	stderr string
	status []map[string]any // the lines of --json-status-fd
}

// stage runs a scene to its end as the unprivileged user.
func stage(t testing.TB, s scene) outcome {
	t.Helper()
	cmd, status := prepare(t, s)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := outcome{status: status()}
	_ = cmd.Wait()
	o.code, o.stdout, o.stderr = cmd.ProcessState.ExitCode(), []byte(stdout.String()), stderr.String()
	return o
}

// prepare returns the shim's command, not yet started, and a function that reads the
// status lines to their end once it is.
func prepare(t testing.TB, s scene) (*exec.Cmd, func() []map[string]any) {
	t.Helper()
	arg := s.encode(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	cmd := testbox.UserCommand(t, "/proc/self/exe", "stage", "shim", arg)
	cmd.ExtraFiles = []*os.File{w}
	return cmd, func() []map[string]any {
		w.Close()
		return statusLines(t, r)
	}
}

// encode fits a scene to the bubblewrap under test and makes it an argument.
func (s scene) encode(t testing.TB) string {
	t.Helper()
	testbox.Need(t, "bwrap", "userns")
	able := abilities(t)
	s.NoSize = !able.Size
	s.NoLimit = s.NoLimit || !able.DisableUserns
	if s.Program == "" {
		s.Program = able.Program
	}
	arg, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(arg)
}

func statusLines(t testing.TB, r io.Reader) []map[string]any {
	t.Helper()
	var out []map[string]any
	for dec := json.NewDecoder(r); ; {
		var line map[string]any
		if err := dec.Decode(&line); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatalf("read a status line: %v", err)
		}
		out = append(out, line)
	}
}

// bwrapProgram is the bubblewrap under test: that of PATH, or another version.
func bwrapProgram(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("SBXD_TEST_BWRAP"); p != "" {
		return p
	}
	p, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	p, err = filepath.EvalSymlinks(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var able struct {
	sync.Once
	Findings
}

// abilities probes the bubblewrap under test, once: older ones lack options.
func abilities(t testing.TB) Findings {
	t.Helper()
	able.Do(func() {
		f, err := Probe(t.Context(), bwrapProgram(t), testbox.TempDir(t))
		if err != nil {
			t.Fatal(err)
		}
		able.Findings = f
	})
	return able.Findings
}

// inside runs a payload to its end and returns what it printed.
func inside(t testing.TB, s scene) results {
	t.Helper()
	o := stage(t, s)
	if o.code != 0 {
		t.Fatalf("payload %v: exit code %d\n%s", s.Guest, o.code, o.stderr)
	}
	res := results{}
	if err := json.Unmarshal(o.stdout, &res); err != nil {
		t.Fatalf("payload %v printed %q: %v", s.Guest, o.stdout, err)
	}
	return res
}

func expect(t testing.TB, got results, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %q, want %q", name, got[name], w)
		}
	}
}
