package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

// serve answers on a new socket until the test ends.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	path := filepath.Join(testbox.TempDir(t), "s.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return path
}

func wantCode(t *testing.T, err error, code int) *Error {
	t.Helper()
	var told *Error
	if !errors.As(err, &told) || told.Code != code {
		t.Fatalf("%v; want an error of code %d", err, code)
	}
	return told
}

func TestNobodyListens(t *testing.T) {
	dir := testbox.TempDir(t)
	dead := filepath.Join(dir, "dead.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	for _, path := range []string{filepath.Join(dir, "none"), dead, filepath.Join(dir, strings.Repeat("x", 300), "s.sock")} {
		_, err := Dial(path)
		if told := wantCode(t, err, ExitNoDaemon); told.Hint == "" || !strings.Contains(told.Message, path) {
			t.Errorf("%v", told)
		}
		_, err = New(path).List(t.Context())
		wantCode(t, err, ExitNoDaemon)
		_, err = New(path).Exec(t.Context(), "s", ExecRequest{Argv: []string{"x"}}, Streams{})
		wantCode(t, err, ExitNoDaemon)
	}
	_, err = DialOnce([]string{dead, filepath.Join(dir, "none")})
	if told := wantCode(t, err, ExitNoDaemon); !strings.Contains(told.Message, dead) {
		t.Errorf("the first place is not named: %v", told)
	}
	_, err = DialOnce(nil)
	wantCode(t, err, ExitNoDaemon)
}

func TestSocketOfSomebodyElse(t *testing.T) {
	for _, c := range []struct {
		me, listener int
		want         bool
	}{{1000, 1000, true}, {1000, 0, true}, {1000, 1001, false}, {0, 1000, true}, {0, 0, true}} {
		if got := trusts(c.me, c.listener); got != c.want {
			t.Errorf("uid %d trusts %d: %v", c.me, c.listener, got)
		}
	}
	conn, err := dialUnix(t.Context(), serve(t, http.NotFoundHandler()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, err := peerUID(conn); err != nil || uid != os.Geteuid() {
		t.Errorf("the listener is uid %d, %v", uid, err)
	}
	c := New("/s")
	told := wantCode(t, c.noDaemon(&strangerError{socket: "/s", uid: 7}), ExitDenied)
	if !strings.Contains(told.Message, "uid 7") || told.Hint == "" {
		t.Error(told)
	}
}

func TestErrorsAndPlansComeBack(t *testing.T) {
	mux := http.NewServeMux()
	reply := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	mux.HandleFunc("POST /v1/sessions/a/land", reply(409, `{"code":6,"message":"drift","hint":"look","plan":{"id":"x","changes":[{"path":"p"}]}}`))
	mux.HandleFunc("GET /v1/sessions/a", reply(404, `{"code":10,"message":"none"}`))
	mux.HandleFunc("GET /v1/sessions", reply(500, `<html>`))
	mux.HandleFunc("GET /v1/version", reply(200, `{`))
	mux.HandleFunc("GET /v1/lands", reply(200, `[{"id":"1","counts":{"added":2,"mode":1}}]`))
	c := New(serve(t, mux))
	l, err := c.Land(t.Context(), "a", LandRequest{})
	told := wantCode(t, err, ExitDrift)
	if told.Error() != "drift (look)" || l.ID != "x" || len(l.Changes) != 1 {
		t.Errorf("%q, plan %+v", told.Error(), l)
	}
	_, err = c.Session(t.Context(), "a")
	wantCode(t, err, ExitNotFound)
	_, err = c.List(t.Context())
	if told := wantCode(t, err, ExitFailed); !strings.Contains(told.Message, "500") {
		t.Error(told)
	}
	_, err = c.Version(t.Context())
	wantCode(t, err, ExitFailed)
	lands, err := c.Lands(t.Context())
	if err != nil || len(lands) != 1 || lands[0].Counts.All() != 3 {
		t.Errorf("%+v, %v", lands, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := c.List(ctx); !errors.Is(err, gone) {
		t.Errorf("an ended context: %v", err)
	}
}

// A name is one segment of the path, whatever it holds.
func TestNamesAreEscaped(t *testing.T) {
	var got []string
	c := New(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.EscapedPath())
		_, _ = io.WriteString(w, "{}")
	})))
	for _, id := range []string{"../x", "a/b", "a?b#c", "%2f"} {
		_, _ = c.Session(t.Context(), id)
	}
	want := []string{"/v1/sessions/..%2Fx", "/v1/sessions/a%2Fb", "/v1/sessions/a%3Fb%23c", "/v1/sessions/%252f"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPathsThatJSONWouldChange(t *testing.T) {
	c := New("/nonexistent")
	for _, r := range []StartRequest{{Project: "/a\xff"}, {Project: "/a", Masks: []string{"\xff"}}, {Project: "/a", ReadOnly: []string{"\xc0"}}} {
		_, err := c.Start(t.Context(), r)
		wantCode(t, err, ExitRefused)
	}
}

func TestWordsOfAnyBytes(t *testing.T) {
	want := ExecRequest{Argv: []string{"printf", "\xff\x01", "é", ""}, Cwd: "/d\xfe", Env: []string{"A=\x80"}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got ExecRequest
	if err := json.Unmarshal(b, &got); err != nil || !slices.Equal(got.Argv, want.Argv) || got.Cwd != want.Cwd || !slices.Equal(got.Env, want.Env) {
		t.Errorf("%s: %+v, %v", b, got, err)
	}
	if err := json.Unmarshal([]byte(`{"argv":[{}]}`), &got); err == nil {
		t.Error("a word that is an empty object is taken")
	}
	if err := json.Unmarshal([]byte(`{"argv":["a","b"]}`), &got); err != nil || len(got.Argv) != 2 {
		t.Errorf("plain strings: %+v, %v", got, err)
	}
}

func TestSockets(t *testing.T) {
	env := func(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }
	for name, c := range map[string]struct {
		uid  int
		env  map[string]string
		want []string
	}{
		"named":      {1000, map[string]string{"SBXD_SOCKET": "/s"}, []string{"/s"}},
		"a user":     {1000, map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"}, []string{"/run/user/1000/sbxd/sbxd.sock", SystemSocket}},
		"no runtime": {1000, nil, []string{"/state/run/sbxd.sock", SystemSocket}},
		"relative":   {1000, map[string]string{"XDG_RUNTIME_DIR": "run"}, []string{"/state/run/sbxd.sock", SystemSocket}},
		"root":       {0, nil, []string{SystemSocket}},
	} {
		if got := Sockets(c.uid, env(c.env), "/state"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The connection that Dial makes is used once, and not when it may have gone stale.
func TestTheFirstConnectionIsUsed(t *testing.T) {
	path, conns := counted(t)
	for _, c := range []struct {
		wait time.Duration
		want int32
	}{{0, 1}, {freshness + 100*time.Millisecond, 2}} {
		conns.Store(0)
		client, err := Dial(path)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(c.wait)
		for range 2 {
			if _, err := client.Version(t.Context()); err != nil {
				t.Errorf("after %v: %v", c.wait, err)
			}
		}
		if got := conns.Load(); got != c.want {
			t.Errorf("after %v: %d connections, want %d", c.wait, got, c.want)
		}
		client.Close()
	}
}

// A client that keeps no connection uses the one that showed it the daemon, and the one
// that was made ahead.
func TestEachRequestHasAConnection(t *testing.T) {
	path, conns := counted(t)
	client, err := DialOnce([]string{path + ".none", path})
	if err != nil {
		t.Fatal(err)
	}
	client.Ahead(t.Context())
	for want := int32(2); want <= 4; want++ {
		if _, err := client.Version(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want == 2 { // the first took one, which made room for the other
			for len(client.made) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if got := conns.Load(); got != max(2, want-1) {
			t.Errorf("%d connections after %d requests", got, want-1)
		}
	}
	client.Close()
}

// A request that nobody answers ends with its context, and so does an answer half way.
func TestCancelledWithAConnectionOfItsOwn(t *testing.T) {
	for _, begun := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		socket := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if begun {
				_, _ = io.WriteString(w, `{"version":`)
				w.(http.Flusher).Flush()
			}
			time.AfterFunc(20*time.Millisecond, cancel)
			<-r.Context().Done()
		}))
		client, err := DialOnce([]string{socket})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Version(ctx); err == nil || !begun && !errors.Is(err, context.Canceled) {
			t.Errorf("answer begun %v: %v", begun, err)
		}
		cancel()
	}
}

// counted serves {} and counts connections.
func counted(t *testing.T) (string, *atomic.Int32) {
	var conns atomic.Int32
	path := filepath.Join(testbox.TempDir(t), "s.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		},
		ReadHeaderTimeout: freshness / 2,
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return path, &conns
}
