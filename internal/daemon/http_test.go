package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// post sends a raw body and returns status and answer.
func (b *box) post(method, path, body string) (int, string) {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "curl", "-sS", "--unix-socket", b.opt.Socket, "-X", method,
		"-w", "\n%{http_code}", "-d", "@-", "http://sbxd"+path)
	cmd.Stdin = strings.NewReader(body)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("curl: %v: %s", err, out)
	}
	text := string(out)
	i := strings.LastIndexByte(text, '\n')
	var code int
	must(b.t, json.Unmarshal([]byte(text[i+1:]), &code))
	return code, text[:i]
}

func TestEndpointsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/http.md")
	must(t, err)
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]+) /v1(/[^`]*)`").FindAllStringSubmatch(string(b), -1) {
		documented[row[1]+" "+row[2]] = true
	}
	for pattern := range new(Daemon).endpoints() {
		if !documented[pattern] {
			t.Errorf("docs/http.md has no row of %s", pattern)
		}
		delete(documented, pattern)
	}
	for pattern := range documented {
		t.Errorf("docs/http.md has a row of %s, which is not there", pattern)
	}
}

func TestExecWithCurl(t *testing.T) {
	testbox.Need(t, "curl")
	b := newBox(t)
	b.start()
	s := b.session()
	body := `{"argv":["sh","-c","tr a-z A-Z; echo no >&2; exit 4"],"input":"some text\n","env":["X=1"]}`
	code, text := b.post("POST", "/v1/sessions/"+s.ID+"/exec", body)
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	out := map[string]string{}
	var last api.Event
	if n := strings.Count(text, `"code"`); n != 1 {
		t.Errorf("%d lines have a code, want the last alone:\n%s", n, text)
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var e api.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		out[e.Type] += string(e.Data)
		last = e
	}
	if out["stdout"] != "SOME TEXT\n" || out["stderr"] != "no\n" || last.Type != "exit" || last.Code == nil || *last.Code != 4 {
		t.Errorf("%q, then %+v", out, last)
	}
	if _, text := b.post("POST", "/v1/sessions/"+s.ID+"/exec", `{"argv":["true"]}`); !strings.HasSuffix(text, `{"type":"exit","exec":"2","code":0}`+"\n") {
		t.Errorf("a command that did well: %s", text)
	}
	for name, c := range map[string]struct {
		path, body string
		code       int
		says       string
	}{
		"not found inside": {"/exec", `{"argv":["/nonexistent"]}`, 500, `"code":127`},
		"no argv":          {"/exec", `{}`, 400, "argv"},
		"stdin":            {"/exec", `{"argv":["cat"],"stdin":true}`, 400, "input"},
		"unknown key":      {"/exec", `{"argv":["true"],"priviledged":true}`, 400, "priviledged"},
		"wrong type":       {"/exec", `{"argv":"true"}`, 400, "body"},
		"two values":       {"/exec", `{"argv":["true"]}{}`, 400, "follows"},
		"cut":              {"/exec", `{"argv":`, 400, "body"},
		"unknown attach":   {"/exec", `{"attach":"77"}`, 500, "no such command"},
		"attach with argv": {"/exec", `{"attach":"1","argv":["x"]}`, 400, "attach"},
		"huge argv":        {"/exec", `{"argv":["echo","` + strings.Repeat("x", 3<<20) + `"]}`, 400, "larger than"},
		"no endpoint":      {"/fly", `{}`, 404, "/v1"},
	} {
		code, text := b.post("POST", "/v1/sessions/"+s.ID+c.path, c.body)
		var f api.Failure
		if err := json.Unmarshal([]byte(text), &f); code != c.code || !strings.Contains(text, c.says) || err != nil || f.Error == nil {
			t.Errorf("%s: %d %s, %v", name, code, text, err)
		}
	}
	if code, text := b.post("POST", "/v2/sessions", "{}"); code != 404 || !strings.Contains(text, "/v1") {
		t.Errorf("another version: %d %s", code, text)
	}
}

func TestStreams(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB, four windows
	var out bytes.Buffer
	exit, err := b.Exec(t.Context(), s.ID, api.ExecRequest{Argv: []string{"cat"}, Stdin: true},
		api.Streams{Stdin: bytes.NewReader(big), Stdout: &out})
	if err != nil || exit.Code != 0 || !bytes.Equal(out.Bytes(), big) {
		t.Errorf("a MiB through cat: %+v, %v, %d bytes", exit, err, out.Len())
	}
	signals := make(chan string, 1)
	exit, err = b.Exec(t.Context(), s.ID, api.ExecRequest{Argv: []string{"sleep", "100"}},
		api.Streams{Signals: signals, Started: func(string, int) { signals <- "TERM" }})
	if err != nil || exit.Code != 143 || exit.Signal != "TERM" {
		t.Errorf("a signal: %+v, %v", exit, err)
	}
	_, err = b.Exec(t.Context(), s.ID, api.ExecRequest{Argv: []string{"/nonexistent"}}, api.Streams{})
	wantCode(t, "no such program", err, api.ExitNoCommand)
	_, err = b.Exec(t.Context(), s.ID, api.ExecRequest{}, api.Streams{})
	wantCode(t, "no argv", err, api.ExitUsage)
	_, err = b.Exec(t.Context(), "nobody", api.ExecRequest{Argv: []string{"true"}}, api.Streams{})
	wantCode(t, "no session", err, api.ExitNotFound)
	broken := errors.New("the reader left")
	_, err = b.Exec(t.Context(), s.ID, api.ExecRequest{Argv: []string{"echo", "x"}}, api.Streams{Stdout: failing{broken}})
	wantCode(t, "an output that fails", err, api.ExitFailed)
	odd := "\xff\xfe \n"
	out.Reset()
	if _, err := b.Exec(t.Context(), s.ID, api.ExecRequest{Argv: []string{"printf", "%s", odd}}, api.Streams{Stdout: &out}); err != nil || out.String() != odd {
		t.Errorf("an argument that is not UTF-8: %q, %v", out.String(), err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestDiffLandUndo(t *testing.T) {
	b := newBox(t)
	b.start()
	ctx := t.Context()
	s := b.session()
	b.sh(s.ID, "echo x >a; echo y >b")
	diff, err := b.Diff(ctx, s.ID, api.DiffOptions{})
	if err != nil || len(diff.Changes) != 2 || diff.Session != s.ID {
		t.Errorf("Diff: %+v, %v", diff, err)
	}
	landing, err := b.Land(ctx, s.ID, api.LandRequest{Expect: "drift"})
	wantCode(t, "a drift", err, api.ExitDrift)
	if len(landing.Findings) != 1 {
		t.Errorf("the plan beside the error: %+v", landing)
	}
	first, err := b.Land(ctx, s.ID, api.LandRequest{Yes: true})
	must(t, err)
	second, err := b.Land(ctx, s.ID, api.LandRequest{Yes: true})
	must(t, err)
	lands, err := b.Lands(ctx)
	if err != nil || len(lands) != 2 || lands[0].ID != second.ID || lands[1].ID != first.ID {
		t.Errorf("Lands: %+v, %v; want the newest first", lands, err)
	}
	undone, err := b.Undo(ctx, first.ID, api.UndoRequest{Yes: true})
	if err != nil || undone.Undoes != first.ID {
		t.Errorf("Undo: %+v, %v", undone, err)
	}
	for _, bad := range []string{"abcdefghijkl", "x", "../x"} {
		_, err = b.Undo(ctx, bad, api.UndoRequest{})
		wantCode(t, "undo of "+bad, err, api.ExitNotFound)
	}
	e, err := b.Explain(ctx, s.ID, "/etc/passwd")
	if err != nil || e.Path != "/etc/passwd" {
		t.Errorf("Explain: %+v, %v", e, err)
	}
	_, err = b.Explain(ctx, s.ID, "relative")
	wantCode(t, "explain of a relative path", err, api.ExitUsage)
	v, err := b.Version(ctx)
	if err != nil || v.API != "v1" || v.UID != os.Geteuid() || v.State != b.opt.StateRoot {
		t.Errorf("Version: %+v, %v", v, err)
	}
}

func TestSweep(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	// A directory that no record knows: seen, and kept for now, because it is young.
	orphan := string(session.NewID())
	dir := filepath.Join(filepath.Dir(s.Dir), orphan)
	must(t, os.MkdirAll(filepath.Join(dir, "log"), 0o700))
	for _, dry := range []bool{true, false} {
		got, err := b.Sweep(t.Context(), api.SweepRequest{DryRun: dry})
		must(t, err)
		found := false
		for _, i := range got.Items {
			found = found || strings.Contains(i.What, orphan)
			if strings.Contains(i.What, s.ID) && i.Action != "keep" {
				t.Errorf("a live session is swept: %+v", i)
			}
		}
		if !found {
			t.Errorf("the orphan is not found: %+v", got)
		}
	}
	if out, code := b.sh(s.ID, "echo on"); code != 0 || out != "on\n" {
		t.Errorf("the live session: %q, %d", out, code)
	}
	must(t, os.RemoveAll(dir))
}

func TestLogOfAStoppedSession(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session()
	_, err := b.Stop(t.Context(), s.ID)
	must(t, err)
	list, err := b.Commands(t.Context(), s.ID)
	if err != nil || len(list) != 1 {
		t.Errorf("Commands: %+v, %v", list, err)
	}
	log, err := b.Log(t.Context(), s.ID, "1", 1, false)
	must(t, err)
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || string(text) != "ld" {
		t.Errorf("%q, %v", text, err)
	}
}

// The audit trail is complete, and holds no value and no argument.
func TestAuditTrail(t *testing.T) {
	b := newBox(t)
	b.start()
	s := b.session(func(r *api.StartRequest) { r.Env = []string{"TOKEN=s3cret"} })
	b.sh(s.ID, "echo hunter2")
	_, err := b.Stop(t.Context(), s.ID)
	must(t, err)
	text, err := os.ReadFile(strings.Replace(s.File, "session.json", "events.jsonl", 1))
	must(t, err)
	for _, what := range []string{`"what":"start"`, `"what":"exec"`, `"what":"stop"`, b.opt.Socket} {
		if !strings.Contains(string(text), what) {
			t.Errorf("it lacks %s:\n%s", what, text)
		}
	}
	record, err := os.ReadFile(s.File)
	must(t, err)
	must(t, b.Remove(t.Context(), s.ID, api.RemoveRequest{Discard: true}))
	b.term() // its log is whole then
	if !strings.Contains(b.stderr.String(), s.ID) {
		t.Errorf("the log does not tell of the session: %s", b.stderr)
	}
	for _, secret := range []string{"s3cret", "hunter2"} {
		if strings.Contains(string(text)+string(record)+b.stderr.String(), secret) {
			t.Errorf("%q is kept", secret)
		}
	}
}

func TestLargeBodiesAreRefused(t *testing.T) {
	testbox.Need(t, "curl")
	b := newBox(t)
	b.start()
	code, text := b.post("POST", "/v1/sessions", `{"project":"`+strings.Repeat("x", maxBody)+`"}`)
	if code != http.StatusBadRequest || !strings.Contains(text, "too large") {
		t.Errorf("%d %.200s", code, text)
	}
}
