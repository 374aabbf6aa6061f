package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// endpoint answers one request: a value that becomes JSON (nil: no content), or an
// error. One that streams writes to w itself and returns streamed.
type endpoint func(w http.ResponseWriter, r *http.Request, c caller) (any, error)

// streamed is the answer of an endpoint that has written it.
var streamed = new(struct{ _ int })

// maxBody bounds a request: an environment at its limit, escaped, fits well.
const maxBody = 16 << 20

// endpoints are what docs/http.md lists, without the version.
func (d *Daemon) endpoints() map[string]endpoint {
	return map[string]endpoint{
		"POST /sessions":               d.postSession,
		"GET /sessions":                d.getSessions,
		"GET /sessions/{id}":           d.of(d.getSession),
		"DELETE /sessions/{id}":        d.locked(d.deleteSession),
		"POST /sessions/{id}/stop":     d.locked(d.postStop),
		"POST /sessions/{id}/resume":   d.locked(d.postResume),
		"GET /sessions/{id}/exec":      d.of(d.getExec),
		"POST /sessions/{id}/exec":     d.of(d.postExec),
		"GET /sessions/{id}/execs":     d.of(d.getExecs),
		"GET /sessions/{id}/log/{cmd}": d.of(d.getLog),
		"GET /sessions/{id}/diff":      d.of(d.getDiff),
		"POST /sessions/{id}/land":     d.of(d.postLand),
		"GET /sessions/{id}/explain":   d.of(d.getExplain),
		"GET /lands":                   d.getLands,
		"POST /lands/{landing}/undo":   d.postUndo,
		"POST /sweep":                  d.postSweep,
		"POST /trust":                  d.postTrust,
		"GET /version":                 d.getVersion,
		"GET /events":                  d.getEvents,
	}
}

func (d *Daemon) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, e := range d.endpoints() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" /"+api.Version+path, d.wrap(e))
	}
	mux.Handle("/", d.wrap(noEndpoint))
	return mux
}

func noEndpoint(_ http.ResponseWriter, r *http.Request, _ caller) (any, error) {
	return nil, &api.Error{
		Code: api.ExitNotFound, Message: fmt.Sprintf("there is no %s %.100q", r.Method, r.URL.Path),
		Hint: "the interface lies below /" + api.Version,
	}
}

// wrap admits the caller, bounds the body, answers, and logs one line. The line holds
// the pattern of the path, and nothing that the caller wrote.
func (d *Daemon) wrap(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		c, err := d.admit(r)
		var v any
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			v, err = e(w, r, c)
		}
		status := http.StatusOK
		switch {
		case err != nil:
			status = answerError(w, v, err)
		case v == streamed:
		default:
			answer(w, status, v)
		}
		d.log.Debug("request", zap.String("op", r.Pattern), zap.Int("uid", c.UID), zap.Int("pid", c.Pid),
			zap.Int("status", status), zap.Duration("dur", time.Since(begun)), zap.Error(err))
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	if v == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the peer went away: nobody to tell
}

// answerError answers with err, and with the plan that was not carried out beside it.
func answerError(w http.ResponseWriter, plan any, err error) int {
	f := api.Failure{Error: session.APIError(err)}
	if plan != nil {
		f.Plan, _ = json.Marshal(plan)
	}
	status := statusOf(f.Error.Code)
	answer(w, status, f)
	return status
}

// statusOf is the HTTP status that fits an exit code.
func statusOf(code int) int {
	switch code {
	case api.ExitUsage:
		return http.StatusBadRequest
	case api.ExitNothing, api.ExitConflict, api.ExitDrift, api.ExitAttention:
		return http.StatusConflict
	case api.ExitGate:
		return http.StatusPreconditionRequired
	case api.ExitRefused:
		return http.StatusUnprocessableEntity
	case api.ExitBusy:
		return http.StatusLocked
	case api.ExitNotFound:
		return http.StatusNotFound
	case api.ExitDenied:
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

// decode reads a JSON body into v, strictly. An empty body is the zero value.
func decode(r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && dec.More() {
		err = errors.New("something follows the JSON value")
	}
	if err != nil {
		return usage("the request's body: %v", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func usage(format string, args ...any) error {
	return &api.Error{Code: api.ExitUsage, Message: fmt.Sprintf(format, args...)}
}

func refused(hint, format string, args ...any) error {
	return &api.Error{Code: api.ExitRefused, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// flag reads a query value that is true or false; absent is false.
func flag(r *http.Request, name string) (bool, error) {
	s := r.URL.Query().Get(name)
	if s == "" && !r.URL.Query().Has(name) {
		return false, nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, usage("the query's %s is %.20q: it has to be true or false", name, s)
	}
	return b, nil
}

// ofSession is an endpoint about one session, which is found already.
type ofSession func(w http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error)

// of makes an endpoint that finds the session of the path's {id}.
func (d *Daemon) of(e ofSession) endpoint {
	return func(w http.ResponseWriter, r *http.Request, c caller) (any, error) {
		rec, err := d.find(c, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		return e(w, r, c, rec)
	}
}

// locked is of for an endpoint that holds the session's lock, and so has to read nothing
// from the caller.
func (d *Daemon) locked(e ofSession) endpoint {
	return d.of(func(w http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
		rec, unlock, err := d.lock(r.Context(), rec)
		if err != nil {
			return nil, err
		}
		defer unlock()
		return e(w, r, c, rec)
	})
}

// lock takes the lock of a session, and reads its record again under it.
func (d *Daemon) lock(ctx context.Context, r session.Record) (session.Record, func(), error) {
	unlock, err := d.locks.Lock(ctx, string(r.ID))
	if err != nil {
		return r, nil, err
	}
	now, ok := d.byID(r.ID)
	if !ok {
		unlock()
		return r, nil, notFound(string(r.ID))
	}
	return now, unlock, nil
}

// record adds a line to a session's audit trail. That it cannot is logged: the thing
// itself has happened.
func (d *Daemon) record(r session.Record, c caller, what, detail string, err error) {
	e := session.Event{Time: time.Now().UTC(), UID: c.UID, Pid: c.Pid, Socket: c.socket, What: what, Detail: detail, Result: "ok"}
	if err != nil {
		e.Result = err.Error()
	}
	if err := d.store.Append(r.ID, e); err != nil {
		d.log.Error("an event was not recorded", zap.String("session", string(r.ID)), zap.Error(err))
	}
}

// self is the daemon as the one who does something by itself.
func (d *Daemon) self() caller {
	var c caller
	c.UID = d.uid
	return c
}
