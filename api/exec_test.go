package api

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
)

// A daemon that is killed while it answers is waited for like one that is not there.
func TestDaemonGoesAwayInTheHandshake(t *testing.T) {
	var asked atomic.Int32
	c := New(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if n == 2 {
			panic(http.ErrAbortHandler) // ends the connection without a word
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.CloseNow()
		_, first, err := ws.Read(r.Context())
		if err != nil {
			t.Error(err)
			return
		}
		var req ExecRequest
		if err := json.Unmarshal(first, &req); err != nil || (n == 1) != (req.Attach == "") {
			t.Errorf("request %d: %+v, %v", n, req, err)
		}
		e := Event{Type: "started", Exec: "7"}
		if n > 1 {
			e = Event{Type: "exit", Exec: "7", Code: new(5)}
		}
		if err := writeJSON(r.Context(), ws, e); err != nil {
			t.Error(err)
		}
	})))
	exit, err := c.Exec(t.Context(), "aaaaaaaaaaaa", ExecRequest{Argv: Words{"true"}}, Streams{})
	if err != nil || exit.Code != 5 || asked.Load() != 3 {
		t.Errorf("%+v, %v, after %d connections", exit, err, asked.Load())
	}
}
